"""Chapter 2: gradient accumulation with unequal token counts."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def loops() -> list[Part]:
    """The loop of this chapter."""
    return [
        Part(
            "chapter02",
            "lab_chapter02.loop:UnequalMicroBatches",
            summary="Accumulate gradients over unequal micro-batches, the wrong normalisation beside the right one",
            extra="train",
            options="lab_chapter02.options:Options",
        )
    ]
