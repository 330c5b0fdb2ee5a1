"""A job: what a backend executes. It knows no model, only stages, files and limits."""

from __future__ import annotations

import re
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
    forwarded: tuple[str, ...] = ()
    """Those of the job's forwarded variables that this stage gets; no other stage sees them."""
    leaves: str = ""
    """A path, with placeholders, of what it writes last: without it an exit code of 0 is not believed."""


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
    grace_seconds: float = 120.0
    """How long a stage that was asked to stop may take to finish its step and save."""
    attempt: int = 1
    max_dollars: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    """Plain variables for every stage; nothing secret."""

    def record(self) -> dict[str, Any]:
        """As plain JSON, for job.json and for the wire."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Job:
        """The job that `record()` described."""
        stages = tuple(
            Stage(**{**stage, "argv": tuple(stage["argv"]), "forwarded": tuple(stage["forwarded"])})
            for stage in record["stages"]
        )
        needs = Needs(**{**record["needs"], "packages": tuple(record["needs"]["packages"])})
        names = {key: tuple(record[key]) for key in ("forwarded", "results")}
        return cls(**{**record, **names, "stages": stages, "needs": needs})

    def stage_plan(self, places: Mapping[str, str], records: str, logs: str) -> dict[str, Any]:
        """What the stage runner is started with: `places` says what each placeholder stands for on that machine."""
        stages = [
            {
                **asdict(stage),
                "argv": [_filled(text, places) for text in stage.argv],
                "leaves": _filled(stage.leaves, places),
            }
            for stage in self.stages
        ]
        limits = {"seconds": self.seconds, "grace_seconds": self.grace_seconds, "attempt": self.attempt}
        paths = {"folder": places[CODE], "records": records, "logs": logs}
        environment = {**self.environment, "LAB_RUN": places[RUN], "LAB_STORE": places[STORE]}
        names = {"forwarded": list(self.forwarded), "environment": environment}
        return {"schema": 1, "run_id": self.run_id, "stages": stages, **limits, **paths, **names}


def _filled(text: str, places: Mapping[str, str]) -> str:
    """Fill every placeholder in one pass: a path that looks like one is left alone."""
    return re.sub("|".join(map(re.escape, places)), lambda found: places[found.group()], text)
