"""The `chunked` loss: cross-entropy over a few rows at a time, so that the whole logits never exist.

Gradients are made in the forward pass, while a chunk's logits exist; the backward pass only hands them on.
Shapes: T tokens, R rows of a chunk, d model width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from lab.contracts.loss import IGNORED
from lab_torch.hardware import multiplies_bf16
from lab_torch.options import ChunkedOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

CPU_ROWS = 128
"""Rows whose softmax is taken at once on a CPU: more would fall out of its caches."""
CPU_COLUMNS = 8192
"""Columns of the head whose gradient is added at once on a CPU, for the same reason."""


class ChunkedCrossEntropy:
    """Under BF16 autocast the products are BF16; sums and softmax are FP32 or better."""

    def __init__(self, options: ChunkedOptions | None = None) -> None:
        self.rows = (options or ChunkedOptions()).rows

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        return f"torch {torch.__version__}, {self.rows} rows at a time"

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """hidden (T, d), head (V, d), targets (T,) -> the FP32 sum."""
        training = torch.is_grad_enabled() and (hidden.requires_grad or head.requires_grad)
        apply: Callable[..., Tensor] = _ChunkedSum.apply  # torch leaves it untyped
        return apply(hidden, head, targets, self.rows, training)


class _ChunkedSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, rows: int, training: bool) -> Tensor:
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        with torch.autocast(device, enabled=False):
            total, d_hidden, d_head = _summed(_operand(hidden, dtype), _operand(head, dtype), targets, rows, training)
        ctx.save_for_backward(d_hidden, d_head)
        ctx.dtypes = hidden.dtype, head.dtype
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        (factor,) = gradients
        d_hidden, d_head = (made.to(dtype) for made, dtype in zip(ctx.saved_tensors, ctx.dtypes, strict=True))
        # The loop's factor is one; only a CPU can be asked without waiting for it.
        if factor.is_cuda or factor.item() != 1.0:
            d_hidden, d_head = d_hidden * factor, d_head * factor
        return d_hidden, d_head, None, None, None


def _operand(x: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to `dtype`; widen again where only FP32 products have units: the numbers are the same."""
    rounded = x.to(dtype)
    return rounded if dtype != torch.bfloat16 or multiplies_bf16(x.device) else rounded.float()


def _summed(
    hidden: Tensor, head: Tensor, targets: Tensor, rows: int, training: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The sum over all chunks, and the gradients of both operands where they are wanted."""
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    piece = min(CPU_ROWS if hidden.device.type == "cpu" else rows, rows, len(targets))
    total = hidden.new_zeros((), dtype=exact)
    logits = hidden.new_empty(min(rows, len(targets)), len(head))  # (R, V), for all chunks in turn
    scratch = logits.new_empty(piece, len(head), dtype=exact)
    d_hidden = torch.empty_like(hidden) if training else None
    d_head = head.new_zeros(head.shape, dtype=exact) if training else None
    for start in range(0, len(targets), rows):
        chunk = hidden[start : start + rows]
        made = logits[: len(chunk)]
        for first in range(0, len(chunk), piece):
            block = made[first : first + piece]
            torch.mm(chunk[first : first + piece], head.t(), out=block)
            total += _scored(block, targets[start + first : start + first + len(block)], scratch, training)
        if d_hidden is not None and d_head is not None:
            torch.mm(made, head, out=d_hidden[start : start + rows])
            _accumulate(d_head, made, chunk)
    return total, d_hidden, d_head


def _scored(logits: Tensor, targets: Tensor, scratch: Tensor, training: bool) -> Tensor:
    """Sum the cross-entropies of a block of logits, and leave their gradient in the logits' place."""
    exact = logits if logits.dtype == scratch.dtype else scratch[: len(logits)].copy_(logits)
    counted = targets != IGNORED
    index = targets.clamp(min=0)[:, None]
    exact.sub_(exact.amax(1, keepdim=True))
    of_target = exact.gather(1, index)[:, 0]
    normalizer = exact.exp_().sum(1)
    loss = (normalizer.log() - of_target).masked_fill(~counted, 0.0).sum()
    if training:
        exact.mul_((counted / normalizer)[:, None])
        exact.scatter_add_(1, index, -counted.to(exact.dtype)[:, None])
        if exact is not logits:
            logits.copy_(exact)
    return loss


def _accumulate(d_head: Tensor, d_logits: Tensor, hidden: Tensor) -> None:
    """Add d_logits.T @ hidden in FP32 or better: a BF16 sum would lose more with every chunk."""
    if d_head.dtype == d_logits.dtype:
        d_head.addmm_(d_logits.t(), hidden)
    elif d_head.is_cuda:
        torch.addmm(d_head, d_logits.t(), hidden, out_dtype=d_head.dtype, out=d_head)
    else:
        for first in range(0, len(d_head), CPU_COLUMNS):
            columns = slice(first, first + CPU_COLUMNS)
            d_head[columns] += d_logits[:, columns].t() @ hidden
