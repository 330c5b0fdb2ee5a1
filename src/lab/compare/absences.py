"""Checks that there is something to compare: no two runs are comparable for what one of them never measured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.compare import formats
from lab.compare.verdicts import NO, Check

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.compare.facts import RunFacts

PEAK = "peak_allocated_bytes"
SPEED, MEMORY = "speed not measured", "memory not measured"
NOT_MEASURED = frozenset({SPEED, MEMORY})
"""The checks of this module: running again here mends nothing of what they name."""
WHY_NOT = {True: "only a GPU has an allocator that counts", False: "no peak of a normal step is recorded"}
"""Why there is no peak, by whether the runs without one were on a CPU."""


def absences(a: RunFacts, b: RunFacts) -> Iterator[Check]:
    """One failed check for each question to which one run, or both, has no figure; nobody is asked otherwise."""
    steps = [formats.counted(len(facts.steps.measured), "step") if facts.steps.measured else None for facts in (a, b)]
    yield from _absence(SPEED, "speed", steps, "no step that is neither warm-up nor observed")
    peaks = [_peak(facts) for facts in (a, b)]
    unable = [facts for facts, peak in zip((a, b), peaks, strict=True) if peak is None]
    on_cpu = all(facts.device.get("type") == "cpu" for facts in unable)
    yield from _absence(MEMORY, "memory", peaks, WHY_NOT[on_cpu])


def _absence(name: str, question: str, found: Sequence[str | None], why: str) -> Iterator[Check]:
    if None in found:
        a, b = (one or "not measured" for one in found)
        yield Check(name, False, a, b, f"nothing to compare: {why}", (), {question: NO})


def _peak(facts: RunFacts) -> str | None:
    peak = facts.measured.get(PEAK)
    return formats.quantity(float(peak), "bytes") if isinstance(peak, (int, float)) else None
