"""What W&B is told beside the rows: the configuration, the figures of the end, and the files that a person looks at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.runs.records import read_json, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.runs.directory import RunDirectory

ENDED = {"completed", "failed", "stopped", "lost"}


def status(run: RunDirectory) -> str:
    """How the run ended, in launch's words or in the worker's; `running` as long as neither has any."""
    for record in (read_json(run.outcome), read_json(run.summary)):
        if record and record.get("status") in ENDED:
            return str(record["status"])
    return "running"


def config(run: RunDirectory) -> dict[str, Any]:
    """The experiment, and by which code, data and machine it ran."""
    record = read_json(run.config) or {}
    provenance = read_json(run.provenance) or {}
    data = read_json(run.data_manifest) or {}
    return {
        "experiment": record.get("experiment", {}),
        "fingerprint": record.get("fingerprint"),
        "backend": record.get("backend"),
        "repository": provenance.get("repository", {}),
        "code_sha256": provenance.get("code_sha256"),
        "data": {name: data.get(name) for name in ("identity", "source", "tokenizer", "splits")},
        "environment": read_json(run.environment) or {},
    }


def summary(run: RunDirectory) -> dict[str, Any]:
    """Every single figure of summary.json under a dotted name, and the outcome."""
    return {**_flat(read_json(run.summary) or {}, "summary/"), "summary/outcome": status(run)}


def files(run: RunDirectory, kinds: tuple[str, ...]) -> Iterator[Path]:
    """The artifacts of the chosen kinds: plain files below the run directory, nothing that leads out of it."""
    inside = run.path.resolve()
    for line in read_lines(run.artifacts):
        path = run.path / str(line.get("path", ""))
        if line.get("kind") in kinds and path.is_file() and path.resolve() == inside / path.relative_to(run.path):
            yield path


def _flat(record: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Nested figures under dotted names; lists stay in the local file."""
    flat: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{name}."))
        elif not isinstance(value, list) and value is not None:
            flat[f"{prefix}{name}"] = value
    return flat
