"""Weights & Biases: mirrors a run directory, online with a key and offline without."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def trackers() -> list[Part]:
    """The `wandb` tracker."""
    return [
        Part(
            "wandb",
            target="lab_wandb.tracker:WandbTracker",
            summary="Weights & Biases, from the run directory: online with WANDB_API_KEY, offline without.",
            extra="wandb",
            options="lab_wandb.options:WandbOptions",
        )
    ]
