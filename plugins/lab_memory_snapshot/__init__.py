"""The GPU memory history of one chosen step, and what it says about the peak."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def observers() -> list[Part]:
    """The `memory-snapshot` observer."""
    return [
        Part(
            name="memory-snapshot",
            target="lab_memory_snapshot.observer:MemorySnapshot",
            summary="Records one step's GPU allocations: the peak by category and phase, and the history itself.",
            extra="train",
            options="lab_memory_snapshot.options:MemorySnapshotOptions",
        )
    ]
