"""Attention: causal within each segment of a batch, never across."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from torch import Tensor

Plan = Any
"""Whatever an attention prepares once a micro-batch from the segment starts: a mask, indices, the starts."""


class Attention(Protocol):
    """Shapes: T tokens, H heads, D head width, S segments."""

    def plan(self, cu_seqlens: Tensor, max_seqlen: int) -> Plan:
        """Prepare for one micro-batch: `cu_seqlens` is int32 (S+1,), the segment starts and then T."""
        ...

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, plan: Plan) -> Tensor:
        """Attend: (T, H, D) each -> (T, H, D), scaled by 1/sqrt(D)."""
        ...
