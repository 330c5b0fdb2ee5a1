"""What an attempt leaves behind when the next one goes on from a checkpoint: moved aside, never lost."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from lab.runs import records

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory


def rewind_metrics(run: RunDirectory, attempt: int, step: int) -> int:
    """Move the lines after `step`, which `attempt` wrote, out of metrics.jsonl; return how many were moved.

    Killed in between, it can be called again: the lines are written to their new place before they leave the old.
    """
    if not run.metrics.is_file():
        return 0
    with run.metrics.open("rb") as file:
        lines = file.readlines()
    kept = [line for line in lines if _step(line) <= step]
    moved = [line for line in lines if _step(line) > step]
    if moved:
        run.attempts.mkdir(exist_ok=True)
        records.write_bytes(run.earlier_metrics(attempt), b"".join(moved))
        records.write_bytes(run.metrics, b"".join(kept))
    return len(moved)


def put_aside(run: RunDirectory, attempt: int) -> None:
    """Move the figures of `attempt` aside, so that nobody takes them for those of the next one."""
    for record in (run.summary, run.environment, run.outcome):
        content = record.read_bytes() if record.is_file() else None
        if content is not None:
            run.attempts.mkdir(exist_ok=True)
            records.write_bytes(run.earlier(attempt, record), content)
    run.summary.unlink(missing_ok=True)


def _step(line: bytes) -> float:
    """The line's step; what a kill tore belongs to no step and is moved with the rest."""
    try:
        step = json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, LookupError, TypeError, RecursionError):
        step = None
    return step if isinstance(step, int) else float("inf")
