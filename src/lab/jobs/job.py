"""A job: what a backend executes. It knows no model, only stages, files and limits."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

PYTHON = "{python}"
RUN = "{run}"
CODE = "{code}"
STORE = "{store}"
"""Placeholders in a stage's argument list; the backend that knows the paths fills them in."""


@dataclass(frozen=True)
class Stage:
    """One step of a job: an argument list with placeholders, run in the code's folder."""

    name: str
    argv: tuple[str, ...]
    seconds: float | None = None
    """Its deadline; None leaves only the job's."""


@dataclass(frozen=True)
class Needs:
    """The machine that the job asks a renting backend for."""

    gpu: str | None = None
    image: str | None = None
    packages: tuple[str, ...] = ()
    torch_index: str | None = None
    disk_gb: int = 30
    volume_gb: int | None = None
    network_volume: str | None = None


@dataclass(frozen=True)
class Job:
    """Stages over a bundle, with the names of forwarded variables, result patterns and limits."""

    run_id: str
    stages: tuple[Stage, ...]
    bundle_sha256: str
    """Of the bundle's archive, which lies in the run directory."""
    needs: Needs = Needs()
    forwarded: tuple[str, ...] = ()
    """Names of environment variables whose values travel to the stages; never the values."""
    results: tuple[str, ...] = ("**",)
    """Patterns below the run directory that collection brings home."""
    seconds: float = 3600.0
    max_dollars: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Plain variables for every stage; nothing secret."""

    def record(self) -> dict[str, Any]:
        """As plain JSON, for job.json and for the wire."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Job:
        """The job that `record()` described."""
        stages = tuple(Stage(s["name"], tuple(s["argv"]), s["seconds"]) for s in record["stages"])
        needs = Needs(**{**record["needs"], "packages": tuple(record["needs"]["packages"])})
        rest = {key: record[key] for key in ("run_id", "bundle_sha256", "seconds", "max_dollars", "environment")}
        return cls(
            stages=stages, needs=needs, forwarded=tuple(record["forwarded"]), results=tuple(record["results"]), **rest
        )
