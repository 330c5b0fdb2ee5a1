"""Sums over the spans of a trace: time covered by any of them, the gaps between them, and time not spent in a child."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True)
class Span:
    """One event with a duration; times are microseconds."""

    name: str
    start: float
    end: float
    thread: object = None
    correlation: object = None
    """What a launch on the CPU and its work on the GPU share."""

    @property
    def duration(self) -> float:
        """How long it took."""
        return self.end - self.start


@dataclass(frozen=True)
class Gap:
    """Time within a window that no span covers."""

    start: float
    end: float
    after: str | None
    before: str | None

    @property
    def duration(self) -> float:
        """How long it lasted."""
        return self.end - self.start


def gaps(spans: Iterable[Span], start: float, end: float) -> list[Gap]:
    """What the spans leave uncovered between `start` and `end`, in time order."""
    found = []
    reached, last = start, None
    for span in sorted(spans, key=lambda span: span.start):
        if span.end <= start or span.start >= end:
            continue
        if span.start > reached:
            found.append(Gap(reached, span.start, last, span.name))
        if span.end >= reached:
            reached, last = span.end, span.name
    if reached < end:
        found.append(Gap(reached, end, last, None))
    return found


def self_times(spans: Sequence[Span]) -> list[tuple[Span, float]]:
    """Each span with the time that no span inside it on the same thread covers."""
    own = [span.duration for span in spans]
    order = sorted(range(len(spans)), key=lambda i: (str(spans[i].thread), spans[i].start, -spans[i].end))
    open_spans: list[int] = []
    for i in order:
        while open_spans and not _holds(spans[open_spans[-1]], spans[i]):
            open_spans.pop()
        if open_spans:
            own[open_spans[-1]] -= spans[i].duration
        open_spans.append(i)
    return list(zip(spans, own, strict=True))


def _holds(outer: Span, inner: Span) -> bool:
    return outer.thread == inner.thread and outer.start <= inner.start and inner.end <= outer.end
