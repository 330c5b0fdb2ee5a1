"""A timeline of chosen steps, and what it says about where their time went."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def observers() -> list[Part]:
    """The `profiler` observer."""
    return [
        Part(
            name="profiler",
            target="lab_profiler.observer:Profiler",
            summary="Traces chosen steps with torch.profiler: busy share, gaps, kernels, time by phase.",
            extra="train",
            options="lab_profiler.options:ProfilerOptions",
        )
    ]
