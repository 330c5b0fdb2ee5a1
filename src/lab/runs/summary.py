"""The summary of a run: the worker's own, or one rebuilt from the metrics of a worker that was killed."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record

UNKNOWN_MFU = "rebuilt from the metrics, which do not know the device's peak"


def read(run: RunDirectory) -> Record | None:
    """The worker's summary, or None when it left none that can be read."""
    try:
        return records.read_json(run.summary)
    except LabError:
        return None


def read_or_rebuild(run: RunDirectory, status: str, reason: str = "") -> Record:
    """The worker's summary, or what its metrics still tell."""
    return read(run) or rebuilt(run, status, reason)


def rebuilt(run: RunDirectory, status: str, reason: str = "") -> Record:
    """The same figures by the same formulas, from the lines that are whole; what they do not tell is None."""
    lines = [line for line in records.read_lines(run.metrics) if isinstance(line.get("step"), int)]
    steps = [line for line in lines if line.get("kind") == "step"]
    evaluations = [line for line in lines if line.get("kind") == "evaluation"]
    normal = [line for line in steps if not line.get("warmup") and not line.get("observed")]
    last = steps[-1] if steps else {}
    return {
        "schema": 1,
        "status": status,
        "reason": reason,
        "steps": last.get("step", 0),
        "measured": {
            "steps": len(normal),
            "seconds": _sum(normal, "seconds"),
            "targets": _sum(normal, "targets"),
            "tokens_per_second": _rate(normal),
            "median_step_seconds": _median(_numbers(normal, "seconds")),
            "flops": _sum(normal, "flops"),
            "mfu": None,
            "mfu_reason": UNKNOWN_MFU,
            "peak_flops": None,
            "peak_source": None,
            "peak_allocated_bytes": max(_numbers(normal, "allocated_bytes"), default=None),
            "peak_reserved_bytes": max(_numbers(normal, "reserved_bytes"), default=None),
        },
        "overall": {"seconds": _sum(steps, "seconds"), "targets": _sum(steps, "targets")},
        "loss": {
            "first": steps[0].get("loss") if steps else None,
            "last": last.get("loss"),
            "evaluations": _evaluations(evaluations, steps),
        },
        "tokens": {"cached_train": None, "cached_validation": None, "processed": _sum(steps, "tokens")},
        "fingerprints": {
            "weights_initial": None,
            "weights_final": None,
            "fed": last.get("fed"),
            "evaluation_inputs": evaluations[-1].get("inputs") if evaluations else None,
            "scope": None,
        },
        "elapsed_seconds": _elapsed(lines),
        "rebuilt": True,
    }


def _evaluations(evaluations: Sequence[Record], steps: Sequence[Record]) -> list[Record]:
    totals = {line["step"]: line.get("targets_total") for line in steps}
    return [
        {"step": line["step"], "loss": line.get("loss"), "targets_total": totals.get(line["step"], 0)}
        for line in evaluations
    ]


def _numbers(lines: Sequence[Record], key: str) -> list[float]:
    return [line[key] for line in lines if isinstance(line.get(key), (int, float))]


def _sum(lines: Sequence[Record], key: str) -> float:
    return sum(_numbers(lines, key))


def _median(numbers: Sequence[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def _rate(lines: Sequence[Record]) -> float | None:
    seconds = _sum(lines, "seconds")
    return _sum(lines, "targets") / seconds if seconds > 0 else None


def _elapsed(lines: Sequence[Record]) -> float | None:
    times = _numbers(lines, "time")
    return times[-1] - times[0] if times else None
