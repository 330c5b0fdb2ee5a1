"""How long a run was at work where its worker does not say it: from what its stage runner and its metrics do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import records

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record


def by_stages(run: RunDirectory) -> float | None:
    """Seconds that the stages of all attempts took; None where none has begun or nothing tells its end.

    One whose end nobody wrote down lasted until the last line of metrics.jsonl: at least so long.
    """
    try:
        lines = list(records.read_lines(run.stages))
    except LabError:
        return None
    known, begun = list[float](), None
    for line in lines:
        event = line.get("event")
        if event == "started":
            begun = _number(line, "unix")
        elif event in ("ended", "entered"):
            begun = None
        if event == "ended":
            known += _found(_number(line, "seconds"))
    if begun is not None:
        known += [seen - begun for seen in _seen(run) if seen >= begun]
    return sum(known) if known else None


def _seen(run: RunDirectory) -> list[float]:
    """When the worker wrote its last line."""
    times = [_number(line, "time") for line in records.last_lines(run.metrics)]
    return [max(known)] if (known := [time for time in times if time is not None]) else []


def _found(number: float | None) -> list[float]:
    return [] if number is None else [number]


def _number(line: Record, key: str) -> float | None:
    value = line.get(key)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
