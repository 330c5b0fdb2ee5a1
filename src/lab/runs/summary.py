"""The summary of a run: the same figures by the same formulas, whether the worker writes them or they are rebuilt."""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record


def read(run: RunDirectory) -> Record | None:
    """The worker's summary, or None when it left none that can be read."""
    return _readable(run.summary)


def read_or_rebuild(run: RunDirectory, status: str, reason: str = "") -> Record:
    """The worker's summary, or what its records still tell."""
    return read(run) or rebuilt(run, status, reason)


def rebuilt(run: RunDirectory, status: str, reason: str = "") -> Record:
    """The summary of a worker that was killed, from what it wrote before; what that does not tell is None."""
    return {**summarise(run, status, reason), "rebuilt": True}


def summarise(
    run: RunDirectory,
    status: str,
    reason: str = "",
    *,
    weights_final: str | None = None,
    elapsed_seconds: float | None = None,
) -> Record:
    """Every figure that the run's records give; only the worker knows the final weights and how long it lived."""
    lines = [line for line in records.read_lines(run.metrics) if isinstance(line.get("step"), int)]
    steps = [line for line in lines if line.get("kind") == "step"]
    evaluations = [line for line in lines if line.get("kind") == "evaluation"]
    environment = _readable(run.environment) or {}
    last = steps[-1] if steps else {}
    return {
        "schema": 1,
        "status": status,
        "reason": reason,
        "steps": last.get("step", 0),
        "measured": _measured(steps, _table(environment, "peak")),
        "overall": _overall(steps),
        "loss": {
            "first": steps[0].get("loss") if steps else None,
            "last": last.get("loss"),
            "evaluations": _evaluations(evaluations, steps),
        },
        "tokens": {**_cached(_readable(run.data_manifest) or {}), "processed": _sum(steps, "tokens")},
        "fingerprints": {
            "weights_initial": None,
            "scope": None,
            **_table(environment, "fingerprints"),
            "weights_final": weights_final,
            "fed": last.get("fed"),
            "evaluation_inputs": evaluations[-1].get("inputs") if evaluations else None,
        },
        "elapsed_seconds": _elapsed(run, lines) if elapsed_seconds is None else elapsed_seconds,
        "rebuilt": False,
    }


def _measured(steps: Sequence[Record], peak: Mapping[str, object]) -> Record:
    """The normal region: neither warm-up nor observed. A rate is all its tokens over all its time."""
    normal = [line for line in steps if not line.get("warmup") and not line.get("observed")]
    seconds, flops = _sum(normal, "seconds"), _sum(normal, "flops")
    reason = _no_mfu(normal, peak)
    peak_flops = peak.get("flops")
    return {
        "steps": len(normal),
        "seconds": seconds,
        "targets": _sum(normal, "targets"),
        "tokens_per_second": _rate(normal),
        "median_step_seconds": _median(_numbers(normal, "seconds")),
        "flops": flops,
        "mfu": flops / seconds / peak_flops if not reason and isinstance(peak_flops, (int, float)) else None,
        "mfu_reason": reason,
        "peak_flops": peak_flops,
        "peak_source": peak.get("source"),
        "peak_allocated_bytes": max(_numbers(normal, "allocated_bytes"), default=None),
        "peak_reserved_bytes": max(_numbers(normal, "reserved_bytes"), default=None),
        "others_percent": statistics.fmean(taken) if (taken := _numbers(normal, "others_percent")) else None,
    }


def _overall(steps: Sequence[Record]) -> Record:
    """All steps, warm-up and observed ones too: what the run took, not what the machine can do."""
    seconds, targets = _sum(steps, "seconds"), _sum(steps, "targets")
    return {"seconds": seconds, "targets": targets, "targets_per_second": _rate(steps)}


def _no_mfu(normal: Sequence[Record], peak: Mapping[str, object]) -> str:
    """Why there is no MFU; empty when there is one."""
    if not normal or _sum(normal, "seconds") <= 0:
        return "no step was measured"
    if any(line.get("flops") is None for line in normal):
        return "the loop states no FLOPs"
    if not peak.get("flops"):
        return str(peak.get("reason") or "the device's peak is not recorded")
    return ""


def _evaluations(evaluations: Sequence[Record], steps: Sequence[Record]) -> list[Record]:
    totals = {line["step"]: line.get("targets_total") for line in steps}
    return [
        {"step": line["step"], "loss": line.get("loss"), "targets_total": totals.get(line["step"], 0)}
        for line in evaluations
    ]


def _cached(manifest: Record) -> Record:
    splits = _table(manifest, "splits")
    return {f"cached_{name}": _table(splits, name).get("tokens") for name in ("train", "validation")}


def _readable(path: Path) -> Record | None:
    try:
        return records.read_json(path)
    except LabError:
        return None


def _table(record: Mapping[str, object], key: str) -> Record:
    found = record.get(key)
    return found if isinstance(found, dict) else {}


def _numbers(lines: Sequence[Record], key: str) -> list[float]:
    return [line[key] for line in lines if isinstance(line.get(key), (int, float))]


def _sum(lines: Sequence[Record], key: str) -> float:
    return sum(_numbers(lines, key))


def _median(numbers: Sequence[float]) -> float | None:
    return statistics.median(numbers) if numbers else None


def _rate(lines: Sequence[Record]) -> float | None:
    seconds = _sum(lines, "seconds")
    return _sum(lines, "targets") / seconds if seconds > 0 else None


def _elapsed(run: RunDirectory, lines: Sequence[Record]) -> float | None:
    """From the start of each attempt to the last line of it that still counts; the time between attempts is left out.

    As the worker has it, who takes the time until a checkpoint from there and goes on counting. The lines tell it by
    the machine's clock, which may be set meanwhile; the stage runner counted, so no attempt took longer than its stage.
    """
    times = _numbers(lines, "time")
    if not times:
        return None
    trained = _trained(run) or [(times[0], math.inf)]
    ends = [*(start for start, _ in trained[1:]), math.inf]
    return sum(
        min(most, max((time for time in times if start <= time < end), default=start) - start)
        for (start, most), end in zip(trained, ends, strict=True)
    )


def _trained(run: RunDirectory) -> list[tuple[float, float]]:
    """When each training stage started, and how many seconds it took at most."""
    found: list[tuple[float, float]] = []
    for line in records.read_lines(run.stages):
        if line.get("stage") == "train" and line.get("event") == "started":
            found += [(start, math.inf) for start in _numbers([line], "unix")]
        elif line.get("stage") == "train" and line.get("event") == "ended" and found:
            found[-1] = (found[-1][0], min(_numbers([line], "seconds"), default=math.inf))
    return found
