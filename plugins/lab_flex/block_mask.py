"""Which blocks of keys each block of queries sees, straight from the segment starts: never a T x T mask.

A block of queries starts in one segment and ends in the same or a later one. It sees the blocks from the one where its
first row's segment starts up to its own. Those that lie wholly inside that segment, below the diagonal, are full when
the block of queries does too; the others need the mask entry by entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.attention.flex_attention import BlockMask

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 128


def block_mask(cu_seqlens: Tensor, tokens: int) -> BlockMask:
    """The causal mask within segments; `cu_seqlens` may repeat its last entry."""
    device = cu_seqlens.device
    segment = torch.searchsorted(cu_seqlens, torch.arange(tokens, device=device), right=True, out_int32=True)
    start_of = cu_seqlens[segment - 1]  # (T,): where each token's segment starts

    blocks = -(-tokens // BLOCK)
    own = torch.arange(blocks, device=device, dtype=torch.int32)
    last_row = (own * BLOCK + BLOCK - 1).clamp(max=tokens - 1)
    start = start_of[own * BLOCK]
    first = start // BLOCK
    first_full = torch.where(start_of[last_row] == start, (start + BLOCK - 1) // BLOCK, own).clamp(max=own)

    # Partial blocks are [first, first_full) and then the diagonal; full ones are [first_full, own).
    place = own.unsqueeze(0)  # (1, blocks)
    before = (first_full - first).unsqueeze(1)
    partial = torch.where(place < before, first.unsqueeze(1) + place, own.unsqueeze(1))
    full = (first_full.unsqueeze(1) + place).clamp(max=blocks - 1)

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (segment[query] == segment[key])

    return BlockMask.from_kv_blocks(
        _four(first_full - first + 1), _four(partial), _four(own - first_full), _four(full),
        BLOCK_SIZE=BLOCK, mask_mod=visible, seq_lengths=(tokens, tokens),
    )  # fmt: skip


def _four(tensor: Tensor) -> Tensor:
    """(blocks, ...) -> (1, 1, blocks, ...): one mask for every batch and head."""
    return tensor.to(torch.int32)[None, None].contiguous()
