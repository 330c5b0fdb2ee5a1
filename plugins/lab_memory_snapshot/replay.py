"""Replays an allocator's history: what was alive at the peak, in which phase it was allocated, and what it was for.

The allocator knows no names, so the lifetime says what an allocation was for:
- held: alive before the step began (weights, optimizer state, buffers);
- activations: allocated in the forward pass or the loss and alive after it;
- gradients: allocated in the backward pass and alive after it;
- temporary: allocated and freed within one phase;
- other: everything else that the step allocated.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

HELD, ACTIVATIONS, GRADIENTS, TEMPORARY, OTHER = "held", "activations", "gradients", "temporary", "other"
OUTSIDE = "outside any phase"
LASTING = {"forward": ACTIVATIONS, "loss": ACTIVATIONS, "backward": GRADIENTS}
MOST_LINES = 20


@dataclass(frozen=True)
class PhaseSpan:
    """When a phase was open, in microseconds of the same clock as the history."""

    name: str
    start: int
    end: int


@dataclass
class Allocation:
    """One block from its allocation to its release; it dies at infinity while nothing freed it."""

    size: int
    phase: str
    line: str | None
    born: int
    """Which event of the history allocated it."""
    died: float = inf
    freed: str | None = None
    """The phase in which it was freed."""

    @property
    def category(self) -> str:
        """What it was for, told by its lifetime."""
        if self.freed == self.phase:
            return TEMPORARY
        return LASTING.get(self.phase, OTHER)


@dataclass(frozen=True)
class Replay:
    """The step's highest moment, and what had been allocated then."""

    baseline_bytes: int
    peak_bytes: int
    peak_phase: str
    alive_at_peak: tuple[Allocation, ...]
    allocations: int
    missed_frees: int
    """Events that free a block allocated before the history begins."""


def replay(events: Sequence[Mapping[str, Any]], phases: Sequence[PhaseSpan], baseline_bytes: int) -> Replay:
    """Walk through the events of one device in order. `baseline_bytes` is what was allocated at their start."""
    blocks: list[Allocation] = []
    alive: dict[int, Allocation] = {}
    now = peak = baseline_bytes
    peak_at, peak_phase, missed = -1, OUTSIDE, 0
    for index, event in enumerate(events):
        phase = phase_at(phases, int(event.get("time_us", -1)))
        if event["action"] == "alloc":
            block = Allocation(event["size"], phase, _line(event.get("frames", ())), index)
            blocks.append(block)
            alive[event["addr"]] = block
            now += event["size"]
            if now > peak:
                peak, peak_at, peak_phase = now, index, phase
        elif event["action"] == "free_completed":
            now -= event["size"]
            freed = alive.pop(event["addr"], None)
            missed += freed is None
            if freed is not None:
                freed.died, freed.freed = index, phase
    at_peak = tuple(block for block in blocks if block.born <= peak_at < block.died)
    return Replay(baseline_bytes, peak, peak_phase, at_peak, len(blocks), missed)


def phase_at(phases: Sequence[PhaseSpan], moment: int) -> str:
    """The phase that was open at a moment; phases come one after the other."""
    index = bisect_right([phase.start for phase in phases], moment) - 1
    return phases[index].name if index >= 0 and moment <= phases[index].end else OUTSIDE


def by_category(replayed: Replay) -> dict[str, int]:
    """Bytes alive at the peak, by what they were for."""
    totals = defaultdict(int, {HELD: replayed.peak_bytes - sum(block.size for block in replayed.alive_at_peak)})
    for block in replayed.alive_at_peak:
        totals[block.category] += block.size
    return dict(totals)


def by_phase(replayed: Replay) -> dict[str, int]:
    """Bytes alive at the peak that the step itself allocated, by the phase that allocated them."""
    return _totals((block.phase, block.size) for block in replayed.alive_at_peak)


def by_line(replayed: Replay) -> list[dict[str, object]]:
    """The Python lines whose allocations weigh most at the peak; empty without stacks."""
    totals = _totals((block.line, block.size) for block in replayed.alive_at_peak if block.line)
    largest = sorted(totals.items(), key=lambda item: -item[1])[:MOST_LINES]
    return [{"line": line, "bytes": size} for line, size in largest]


def _totals(sized: Iterable[tuple[str, int]]) -> dict[str, int]:
    totals: defaultdict[str, int] = defaultdict(int)
    for name, size in sized:
        totals[name] += size
    return dict(totals)


def _line(frames: Sequence[Mapping[str, Any]]) -> str | None:
    """The innermost frame that is not torch's own."""
    for frame in frames:
        if "/torch/" not in frame["filename"]:
            return f"{frame['filename']}:{frame['line']} {frame['name']}"
    return None
