"""The `z-loss`, and its plain form. T tokens, d model width, V vocabulary."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import cross_entropy, linear, log_softmax

if TYPE_CHECKING:
    from torch import Tensor

    from lab_zloss.options import ZLossOptions

IGNORED = -100


class ZLoss:
    """One log Z serves both terms: log Z - logit of the target, and the penalty."""

    def __init__(self, options: ZLossOptions) -> None:
        self.weight = options.weight

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """hidden (T, d), head (V, d), targets (T,) -> the FP32 sum over targets that count."""
        logits = linear(hidden, head).float()  # (T, V)
        log_z = torch.logsumexp(logits, dim=-1)  # (T,)
        counted = targets != IGNORED
        own = logits.gather(1, targets.where(counted, 0).unsqueeze(1)).squeeze(1)
        each = log_z - own + self.weight * log_z.square()
        return each.where(counted, 0.0).sum()

    def reference(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """The same from what torch brings."""
        logits = linear(hidden, head).float()
        log_z = (logits - log_softmax(logits, dim=-1))[targets != IGNORED, 0]
        return cross_entropy(logits, targets, ignore_index=IGNORED, reduction="sum") + self.weight * (log_z**2).sum()
