"""The `padded` loss: exact cross-entropy over a vocabulary padded for alignment, with the parameters unchanged.

A vocabulary of 50,257 gives BF16 logits rows that start at odd multiples of two bytes, for which a GPU has only slow
matrix kernels. Here a copy of the head with rows of zeros below makes the logits as wide as the kernels like. The
added logits are exactly zero, never read and never written, so they are their own gradient too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lab_torch.options import PaddedOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    Score = Callable[[Tensor, Tensor, int], Tensor]

ALIGNMENT = 64
"""Columns; 128 bytes of BF16."""


class PaddedLoss:
    """Computes loss and gradients chunk by chunk in the forward pass; never waits for the device."""

    def __init__(self, options: PaddedOptions | None = None) -> None:
        self.options = options or PaddedOptions()
        self._score: Score = torch.compile(score) if self.options.compile else score

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        how = "compiled" if self.options.compile else "eager"
        return f"torch {torch.__version__}, {self.options.chunks} chunks, {how} softmax, columns in {ALIGNMENT}s"

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """hidden (T, d), head (V, d), targets (T,) -> the FP32 sum."""
        wants_gradients = torch.is_grad_enabled() and (hidden.requires_grad or head.requires_grad)
        rows = -(-len(targets) // self.options.chunks)
        apply: Callable[..., Tensor] = _PaddedSum.apply  # torch leaves it untyped
        return apply(hidden, head, targets, rows, self._score, wants_gradients)


def score(logits: Tensor, targets: Tensor, vocabulary: int) -> Tensor:
    """Sum the cross-entropies of (n, padded) logits and leave their gradient in their place."""
    real = logits[:, :vocabulary]
    exact = real if real.dtype == torch.float64 else real.float()
    counted = targets != -100
    index = targets.clamp(min=0).unsqueeze(1)
    of_target = exact.gather(1, index).squeeze(1)
    lse = exact.logsumexp(1)
    loss = (lse - of_target).masked_fill(~counted, 0.0).sum()
    # An infinite normalizer turns every probability of an ignored row into zero.
    normalizer = lse.masked_fill(~counted, float("inf"))
    real.copy_((exact - normalizer.unsqueeze(1)).exp_())
    at_target = (of_target - normalizer).exp() - counted.to(exact.dtype)
    real.scatter_(1, index, at_target.to(real.dtype).unsqueeze(1))
    return loss


class _PaddedSum(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, rows: int, score: Score, wants_gradients: bool
    ) -> Tensor:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        with torch.autocast(device, enabled=False):
            total, d_hidden, d_head = _scored(hidden.to(dtype), head, targets, rows, score, wants_gradients)
        ctx.save_for_backward(d_hidden, d_head)
        ctx.dtypes = hidden.dtype, head.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        d_hidden, d_head = ctx.saved_tensors
        # One multiplication costs less than asking the device whether the factor is one.
        return (d_hidden * grad).to(ctx.dtypes[0]), (d_head * grad).to(ctx.dtypes[1]), None, None, None, None


def _scored(
    hidden: Tensor, head: Tensor, targets: Tensor, rows: int, score: Score, wants_gradients: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    vocabulary, width = head.shape
    columns = -(-vocabulary // ALIGNMENT) * ALIGNMENT
    weight = hidden.new_zeros(columns, width)
    weight[:vocabulary].copy_(head)
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    total = hidden.new_zeros((), dtype=exact)
    d_hidden = torch.empty_like(hidden) if wants_gradients else None
    d_head = weight.new_zeros(columns, width, dtype=exact) if wants_gradients else None
    buffer = hidden.new_empty(min(rows, len(targets)), columns)
    for start in range(0, len(targets), rows):
        chunk = hidden[start : start + rows]
        logits = buffer[: len(chunk)]
        torch.mm(chunk, weight.t(), out=logits)
        total += score(logits, targets[start : start + rows], vocabulary)
        if d_hidden is not None and d_head is not None:
            torch.mm(logits, weight, out=d_hidden[start : start + rows])
            _accumulate(d_head, logits, chunk)
    return total, d_hidden, None if d_head is None else d_head[:vocabulary]


def _accumulate(d_head: Tensor, logits: Tensor, hidden: Tensor) -> None:
    """Add the chunk's (columns, d) part in at least FP32: BF16 sums would lose more with every chunk."""
    if d_head.is_cuda and logits.dtype == torch.bfloat16:
        torch.addmm(d_head, logits.t(), hidden, out_dtype=torch.float32, out=d_head)
    else:
        d_head.addmm_(logits.t().to(d_head.dtype), hidden.to(d_head.dtype))
