"""What a trace says: how busy the GPU was, where it waited, which kernels and phases took the time."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from lab_profiler.intervals import Gap, Span, gaps, self_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

GPU_WORK = ("kernel", "gpu_memcpy", "gpu_memset")
LAUNCHES = ("cuda_runtime", "cuda_driver")
MOST_GAPS = 10
MOST_KERNELS = 20
MICROSECONDS = 1e-6


def summarise(events: Sequence[Mapping[str, Any]], phases: Iterable[str]) -> dict[str, object]:
    """Figures of a trace whose steps are ranges named "step N"; without GPU work they are the CPU's alone."""
    spans = _spans(events)
    steps = [span for span in spans["user_annotation"] if span.name.startswith("step ")]
    named = [span for span in spans["user_annotation"] if span.name in set(phases)]
    work = [span for category in GPU_WORK for span in spans[category]]
    record: dict[str, object] = {
        "device": "cuda" if work else "cpu",
        "phases": _phases(named, work, [span for category in LAUNCHES for span in spans[category]]),
        "operators": _ranked(self_times(spans["cpu_op"]), sum(step.duration for step in steps)),
    }
    if not work:
        return {
            **record,
            "busy_share": None,
            "busy_reason": "only the CPU was traced: no kernel ran on a GPU",
            "steps": [{"step": _number(step), "seconds": step.duration * MICROSECONDS} for step in steps],
        }
    idle = [(step, gap) for step in steps for gap in gaps(work, step.start, step.end)]
    window = sum(step.duration for step in steps)
    lost = sum(gap.duration for _, gap in idle)
    return {
        **record,
        "busy_share": (window - lost) / window if window else None,
        "busy_reason": "GPU time covered by kernels and copies, over the steps' time with the profiler on",
        "steps": [_step(step, [gap for owner, gap in idle if owner is step]) for step in steps],
        "gaps": [_gap(step, gap, named) for step, gap in sorted(idle, key=lambda pair: -pair[1].duration)[:MOST_GAPS]],
        "kernels": _ranked([(span, span.duration) for span in work], window),
    }


def _spans(events: Iterable[Mapping[str, Any]]) -> defaultdict[str, list[Span]]:
    found: defaultdict[str, list[Span]] = defaultdict(list)
    for event in events:
        if event.get("ph") == "X" and "dur" in event:
            thread = (event.get("pid"), event.get("tid"))
            start = float(event["ts"])
            correlation = event.get("args", {}).get("correlation")
            span = Span(str(event["name"]), start, start + float(event["dur"]), thread, correlation)
            found[str(event.get("cat"))].append(span)
    return found


def _number(step: Span) -> int:
    return int(step.name.removeprefix("step "))


def _step(step: Span, idle: Sequence[Gap]) -> dict[str, object]:
    busy = step.duration - sum(gap.duration for gap in idle)
    return {
        "step": _number(step),
        "seconds": step.duration * MICROSECONDS,
        "busy_seconds": busy * MICROSECONDS,
        "busy_share": busy / step.duration if step.duration else None,
    }


def _gap(step: Span, gap: Gap, named: Sequence[Span]) -> dict[str, object]:
    open_then = [phase.name for phase in named if phase.start <= gap.start < phase.end]
    return {
        "step": _number(step),
        "seconds": gap.duration * MICROSECONDS,
        "at_seconds": (gap.start - step.start) * MICROSECONDS,
        "after": gap.after,
        "before": gap.before,
        "phase": open_then[-1] if open_then else None,
    }


def _phases(named: Sequence[Span], work: Sequence[Span], launches: Sequence[Span]) -> list[dict[str, object]]:
    """CPU time of each phase, and the time of the GPU work that was launched while it was open."""
    order = list(dict.fromkeys(span.name for span in sorted(named, key=lambda span: span.start)))
    cpu = _grouped((span, span.duration) for span in named)
    launched = {span.correlation: span.start for span in launches if span.correlation is not None}
    gpu = dict.fromkeys(order, 0.0)
    for span in work:
        at = launched.get(span.correlation)
        for phase in named:
            if at is not None and phase.start <= at < phase.end:
                gpu[phase.name] += span.duration
    return [
        {
            "phase": name,
            "calls": cpu[name][0],
            "cpu_seconds": cpu[name][1] * MICROSECONDS,
            "gpu_seconds": gpu[name] * MICROSECONDS if work else None,
        }
        for name in order
    ]


def _grouped(timed: Iterable[tuple[Span, float]]) -> dict[str, tuple[int, float]]:
    totals: dict[str, tuple[int, float]] = {}
    for span, own in timed:
        calls, seconds = totals.get(span.name, (0, 0.0))
        totals[span.name] = calls + 1, seconds + own
    return totals


def _ranked(timed: Iterable[tuple[Span, float]], window: float) -> list[dict[str, object]]:
    totals = sorted(_grouped(timed).items(), key=lambda item: -item[1][1])
    return [
        {"name": name, "calls": calls, "seconds": total * MICROSECONDS, "share": total / window if window else None}
        for name, (calls, total) in totals[:MOST_KERNELS]
    ]
