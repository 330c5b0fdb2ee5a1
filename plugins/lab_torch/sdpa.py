"""Attention by scaled_dot_product_attention: one segment after the other, or all segments of one length at once.

Shapes: T tokens, H heads, D head width, B segments of one length, L that length.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from lab_torch.hardware import multiplies_bf16
from lab_torch.options import SdpaOptions

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SegmentPlan:
    """The calls that one micro-batch takes, each (B, L), and how tokens are sorted for them."""

    calls: tuple[tuple[int, int], ...]
    sort: Tensor | None = None
    """(T,): the tokens in the order of the calls; None where that is their own order."""
    unsort: Tensor | None = None
    """(T,): where each token stands in that order."""


class SegmentAttention:
    """Exact on every device and in every dtype; only a reference on a GPU, where planning waits for it."""

    def __init__(self, options: SdpaOptions | None = None) -> None:
        self.batching = (options or SdpaOptions()).batching

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        return f"torch {torch.__version__} scaled_dot_product_attention, batching {self.batching}"

    def plan(self, cu_seqlens: Tensor, max_seqlen: int) -> SegmentPlan:
        """Decide which segments are attended to in one call."""
        starts = cu_seqlens[:-1].tolist()
        lengths = cu_seqlens.diff().tolist()
        equal: dict[int, list[int]] = defaultdict(list)
        for start, length in zip(starts, lengths, strict=True):
            equal[length].append(start)
        # Sorting costs as much as a few calls: it must save more of them than it leaves.
        if self.batching == "none" or 2 * len(equal) > len(lengths):
            return SegmentPlan(tuple((1, length) for length in lengths))
        tokens = [torch.tensor(starts)[:, None] + torch.arange(length) for length, starts in equal.items()]
        sort = torch.cat([rows.flatten() for rows in tokens]).to(cu_seqlens.device)
        calls = tuple((len(starts), length) for length, starts in equal.items())
        return SegmentPlan(calls, sort, torch.argsort(sort))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, plan: SegmentPlan) -> Tensor:
        """(T, H, D) each -> (T, H, D)."""
        if plan.sort is None or plan.unsort is None:
            return _in_turn(q, k, v, plan)
        q, k, v = (x.index_select(0, plan.sort) for x in (q, k, v))
        return _in_turn(q, k, v, plan).index_select(0, plan.unsort)


def _in_turn(q: Tensor, k: Tensor, v: Tensor, plan: SegmentPlan) -> Tensor:
    sizes = [segments * length for segments, length in plan.calls]
    attended = []
    # One split has one backward; slicing each segment out would write a whole (T, H, D) of zeros for every segment.
    each = (torch.split(x, sizes) for x in (q, k, v))
    for shape, a, b, c in zip(plan.calls, *each, strict=True):
        attended.append(_causal(a.unflatten(0, shape), b.unflatten(0, shape), c.unflatten(0, shape)).flatten(0, 1))
    return torch.cat(attended)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(B, L, H, D) each -> (B, L, H, D)."""
    if q.dtype == torch.bfloat16 and not multiplies_bf16(q.device):
        with torch.autocast(q.device.type, enabled=False):
            return _causal(q.float(), k.float(), v.float()).to(q.dtype)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))  # (B, H, L, D)
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
