"""Liger's fused linear cross-entropy: loss and gradients in one pass over the logits, which never exist at once."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def losses() -> list[Part]:
    """The `liger` loss."""
    return [
        Part(
            "liger",
            target="lab_liger.loss:LigerLoss",
            summary="Liger's fused linear cross-entropy in Triton, summed in FP32.",
            extra="liger",
        )
    ]
