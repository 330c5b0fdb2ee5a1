"""The `flex` attention: PyTorch's FlexAttention over the segments of a micro-batch."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.attention.flex_attention import flex_attention

from lab_flex.block_mask import block_mask

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn.attention.flex_attention import BlockMask


class FlexDocuments:
    """Compiled on a GPU, where the uncompiled form would build every score; forward only on a CPU."""

    def __init__(self, options: None = None) -> None:
        pass

    @property
    def kernel(self) -> str:
        """What computes, for environment.json."""
        return f"torch {torch.__version__} flex_attention"

    def preflight(self, device: torch.device) -> str | None:
        """Why this part cannot train on `device`, or None when it can."""
        if device.type == "cuda":
            return None
        return (
            f"FlexAttention has no backward pass on the device '{device.type}', so it cannot train there.\n"
            'Set attention = "sdpa" on this machine.'
        )

    def plan(self, cu_seqlens: Tensor, max_seqlen: int) -> BlockMask:
        """Build the block mask; reads the number of tokens from the device."""
        return block_mask(cu_seqlens, int(cu_seqlens[-1]))

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, plan: BlockMask) -> Tensor:
        """(T, H, D) each -> (T, H, D)."""
        heads_first = [tensor.transpose(0, 1).unsqueeze(0) for tensor in (q, k, v)]
        attend: Any = flex_attention
        if q.is_cuda and not torch.compiler.is_compiling():
            attend = self._compiled
        out: Tensor = attend(*heads_first, block_mask=plan)
        return out.squeeze(0).transpose(0, 1)

    @cached_property
    def _compiled(self) -> Any:
        return torch.compile(flex_attention)
