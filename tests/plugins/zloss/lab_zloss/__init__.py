"""Cross-entropy that keeps the softmax's normaliser near 1."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def losses() -> list[Part]:
    """The `z-loss`."""
    return [
        Part(
            "z-loss",
            target="lab_zloss.loss:ZLoss",
            summary="Cross-entropy plus a penalty on the squared logarithm of the softmax's normaliser.",
            options="lab_zloss.options:ZLossOptions",
        )
    ]
