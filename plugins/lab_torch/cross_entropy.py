"""The plain reference of every loss: all logits at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.nn import functional

from lab.contracts.loss import IGNORED

if TYPE_CHECKING:
    from torch import Tensor


class CrossEntropy:
    """Shapes: T tokens, d model width, V vocabulary."""

    def __init__(self, options: None = None) -> None:
        pass

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """Sum the cross-entropies of hidden (T, d) under head (V, d), in FP32 or better."""
        logits = functional.linear(hidden, head)  # (T, V)
        if logits.element_size() < 4:
            logits = logits.float()
        return functional.cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum")
