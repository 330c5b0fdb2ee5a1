"""The `torch-linear` loss: torch's own chunked linear cross-entropy, with the head in FP32.

Under BF16 autocast torch accumulates this operator's loss in BF16 (0.65 % off at GPT-2's size), so here the head
computes in FP32, or in TF32 where the process allows that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from lab.errors import LabError
from lab_torch.options import TorchLinearOptions

if TYPE_CHECKING:
    from torch import Tensor


class TorchLinearLoss:
    """`torch.nn.functional.linear_cross_entropy`, which is in torch from 2.13 on."""

    def __init__(self, options: TorchLinearOptions | None = None) -> None:
        if not hasattr(functional, "linear_cross_entropy"):
            raise LabError(
                f"loss 'torch-linear' needs torch 2.13 or newer; this is {torch.__version__}.",
                'Set loss = "padded" or "chunked", or install torch>=2.13.',
            )
        self.options = options or TorchLinearOptions()

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        return f"torch {torch.__version__} linear_cross_entropy, {self.options.chunks} chunks, FP32 head"

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """hidden (T, d), head (V, d), targets (T,) -> the FP32 sum."""
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        rows = max(1, -(-len(targets) // self.options.chunks))
        options = torch.nn.LinearCrossEntropyOptions(batch_chunk_size=rows)
        with torch.autocast(hidden.device.type, enabled=False):
            total: Tensor = functional.linear_cross_entropy(
                hidden.to(exact), head.to(exact), targets, reduction="sum", ignore_index=-100, options=options
            )
        return total
