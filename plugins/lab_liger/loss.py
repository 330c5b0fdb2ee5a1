"""The `liger` loss: Liger's Triton kernels on the path that computes gradients once and never rescales them."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import TYPE_CHECKING

import torch
from liger_kernel.transformers.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyLoss

if TYPE_CHECKING:
    from torch import Tensor


class LigerLoss:
    """A sum, so that no factor meets the backward pass and Liger's gradients need no second pass over them."""

    def __init__(self, options: None = None) -> None:
        # Without accum_dtype the head's gradient would be summed over the chunks in the head's own type.
        self._loss = LigerFusedLinearCrossEntropyLoss(reduction="sum", ignore_index=-100, accum_dtype=torch.float32)

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        interpreted = " in Triton's interpreter" if _interpreted() else ""
        return f"liger-kernel {version('liger-kernel')} fused linear cross-entropy, FP32 accumulation{interpreted}"

    def preflight(self, device: torch.device) -> str | None:
        """Why this part cannot train on `device`, or None when it can."""
        if device.type == "cuda" or _interpreted():
            return None
        return (
            f"loss 'liger' runs Triton kernels, which the device '{device.type}' cannot.\n"
            'Set loss = "chunked" on this machine, or TRITON_INTERPRET=1 to try small vocabularies slowly.'
        )

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """hidden (T, d), head (V, d), targets (T,) -> the FP32 sum."""
        total: Tensor = self._loss(head, hidden, targets)
        return total


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"
