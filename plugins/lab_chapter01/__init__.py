"""Chapter 1: one forward, one backward, one update."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def loops() -> list[Part]:
    """The loop of this chapter."""
    return [
        Part(
            "chapter01",
            "lab_chapter01.loop:OneStep",
            summary="One training step of a real language model, every number of it looked at",
            extra="hub",
            options="lab_chapter01.options:Options",
        )
    ]
