"""Whether an attention is causal within each segment, never across, and as exact as it says.

Shapes: T tokens, S segments, H heads, D head width, L tokens of one segment.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from lab.conformance import require
from lab.conformance.numbers import TOLERANCES, drawn, relative

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from torch import Tensor

    from lab.contracts import Attention

    Three = tuple[Tensor, Tensor, Tensor]

MIXES = ((5, 17, 1, 64, 33), (1,), (1, 1, 1), (130,), (16, 16, 16, 16), (3, 9, 3, 9, 27))


@dataclass(frozen=True)
class Batch:
    """Queries, keys, values and an upstream gradient, (T, H, D) each, with the segments they are cut into."""

    lengths: tuple[int, ...]
    inputs: Three
    upstream: Tensor
    cu_seqlens: Tensor

    @property
    def starts(self) -> list[int]:
        """Where each segment starts, and T."""
        return [sum(self.lengths[:index]) for index in range(len(self.lengths) + 1)]


def check_attention(
    attention: Attention,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    tolerance: float | None = None,
    backward: bool = True,
    heads: int = 4,
    width: int = 16,
    mixes: Sequence[tuple[int, ...]] = MIXES,
) -> None:
    """Values and gradients equal a plain FP64 softmax a segment, and no bit leaks across segments or from the future.

    `tolerance` is the largest relative L2 error; by default 1e-10 in FP64, 2e-5 in FP32, 3e-2 in BF16 and FP16.
    `backward=False` is for a device on which the part can only evaluate.
    """
    bound = TOLERANCES[dtype] if tolerance is None else tolerance
    for lengths in mixes:
        batch = _batch(lengths, heads, width, dtype, device)
        plan = attention.plan(batch.cu_seqlens, max(lengths))
        _check_inputs_kept(attention, plan, batch)
        _check_values(attention, plan, batch, bound, backward=backward)
        _check_plan_serves_every_layer(attention, plan, batch, bound)
        _check_nothing_leaks(attention, plan, batch)
        if backward:
            _check_gradients_stay(attention, plan, batch)


def _batch(lengths: tuple[int, ...], heads: int, width: int, dtype: torch.dtype, device: str) -> Batch:
    tokens = sum(lengths)
    cu_seqlens = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32).to(device)
    # As a model makes them: three views of one projection, so rows are not contiguous.
    together = drawn((tokens, 3, heads, width), 11).to(device, dtype)
    q, k, v = together.unbind(1)
    return Batch(lengths, (q, k, v), drawn((tokens, heads, width), 12).to(device, dtype), cu_seqlens)


def _reference(q: Tensor, k: Tensor, v: Tensor, lengths: Sequence[int]) -> Tensor:
    """Softmax attention over each segment alone, spelled out."""
    attended = []
    pieces = (torch.split(x, list(lengths)) for x in (q, k, v))
    for a, b, c in zip(*pieces, strict=True):
        scores = torch.einsum("ihd,jhd->hij", a, b) * a.shape[-1] ** -0.5  # (H, L, L)
        future = torch.ones(len(a), len(a), dtype=torch.bool, device=a.device).triu(1)
        attended.append(torch.einsum("hij,jhd->ihd", scores.masked_fill(future, -torch.inf).softmax(-1), c))
    return torch.cat(attended)


def _check_values(attention: Attention, plan: object, batch: Batch, bound: float, *, backward: bool) -> None:
    inputs = q, k, v = _leaves(batch.inputs, wanted=backward)
    exact = _leaves([x.double().cpu() for x in batch.inputs])
    got, wanted = attention(q, k, v, plan), _reference(*exact, batch.lengths)
    where = f"segments of {batch.lengths}"
    require(got.shape == wanted.shape, f"{where}: the result is {tuple(got.shape)}, not {tuple(wanted.shape)}")
    require(got.dtype == inputs[0].dtype, f"{where}: the result is {got.dtype}, not {inputs[0].dtype} as q, k and v")
    _close(f"{where}: the result", got, wanted, bound)
    if backward:
        gradients = torch.autograd.grad(got, inputs, batch.upstream)
        expected = torch.autograd.grad(wanted, exact, batch.upstream.double().cpu())
        scale = max(float(right.norm()) for right in expected)  # in a segment of one token q and k have none
        for name, gradient, right in zip(("q", "k", "v"), gradients, expected, strict=True):
            _close(f"{where}: the gradient of {name}", gradient, right, bound, scale)


def _close(what: str, got: Tensor, wanted: Tensor, bound: float, scale: float = 0.0) -> None:
    error = relative(got, wanted, scale)
    require(error <= bound, f"{what} differs from plain attention by {error:.1e} (relative L2), more than {bound:.0e}")


def _check_inputs_kept(attention: Attention, plan: object, batch: Batch) -> None:
    before = [x.clone() for x in (*batch.inputs, batch.cu_seqlens)]
    _attended(attention, plan, batch.inputs)
    kept = all(torch.equal(x, y) for x, y in zip(before, (*batch.inputs, batch.cu_seqlens), strict=True))
    require(kept, "attention changes q, k, v or cu_seqlens in place")


def _check_plan_serves_every_layer(attention: Attention, plan: object, batch: Batch, bound: float) -> None:
    """A model calls all its layers with one plan before the first backward."""
    q, k, v = batch.inputs
    first = attention(q, k, v, plan)
    second = attention(v, q, k, plan)
    again = attention(q, k, v, plan)
    require(torch.equal(first, again), "a plan used twice gives other bits the second time")
    wanted = _reference(v.double().cpu(), q.double().cpu(), k.double().cpu(), batch.lengths)
    _close("the second layer with one plan", second, wanted, bound)


def _check_nothing_leaks(attention: Attention, plan: object, batch: Batch) -> None:
    """Change one segment, then one token: no bit may change in other segments, nor before that token."""
    before = _attended(attention, plan, batch.inputs)
    starts = batch.starts
    for index, (start, end) in enumerate(itertools.pairwise(starts)):
        after = _attended(attention, plan, _changed(batch, start, end))
        others = torch.cat([after[:start], after[end:]])
        same = torch.equal(others, torch.cat([before[:start], before[end:]]))
        require(same, f"segments of {batch.lengths}: changing segment {index} changes another one")
        middle = (start + end) // 2
        after = _attended(attention, plan, _changed(batch, middle, end))
        same = torch.equal(after[start:middle], before[start:middle])
        require(same, f"segments of {batch.lengths}: changing later tokens of segment {index} changes earlier ones")


def _changed(batch: Batch, start: int, end: int) -> Three:
    q, k, v = (x.clone() for x in batch.inputs)
    for x in (q, k, v):
        x[start:end] = x[start:end] * -3 + 1
    return q, k, v


def _attended(attention: Attention, plan: object, inputs: Three) -> Tensor:
    q, k, v = inputs
    return attention(q, k, v, plan)


def _leaves(inputs: Iterable[Tensor], *, wanted: bool = True) -> Three:
    q, k, v = (x.detach().clone().requires_grad_(wanted) for x in inputs)
    return q, k, v


def _check_gradients_stay(attention: Attention, plan: object, batch: Batch) -> None:
    """With a loss on one segment, the gradient of every other is exactly zero."""
    starts = batch.starts
    for index, (start, end) in enumerate(itertools.pairwise(starts)):
        inputs = _leaves(batch.inputs)
        upstream = torch.zeros_like(batch.upstream)
        upstream[start:end] = batch.upstream[start:end]
        gradients = torch.autograd.grad(_attended(attention, plan, inputs), inputs, upstream)
        outside = max((float(x.abs().max()) for g in gradients for x in (g[:start], g[end:]) if x.numel()), default=0.0)
        require(outside == 0.0, f"segments of {batch.lengths}: a loss on segment {index} has gradients in others")
