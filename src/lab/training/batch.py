"""A packed batch on its device: only real tokens, and the counts that the loop needs without asking the device.

Shapes: T tokens, S segments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from lab.contracts.loss import IGNORED

if TYPE_CHECKING:
    from torch import Tensor

    from lab.data.packing import PackedBatch

STATIC_SHARE = 0.005
"""More rows than this share are never added to reach a static shape."""


@dataclass(frozen=True)
class Shape:
    """The one shape of a static batch, as compiled code sees it."""

    rows: int
    longest: int
    """No segment is longer; stands for each batch's own longest, so that it is the same in every batch."""


@dataclass(frozen=True)
class MicroBatch:
    """One forward and backward. Rows that only fill a static shape are in the tensors but in none of the counts."""

    tokens: Tensor  # (T,) int32
    targets: Tensor  # (T,) int64, -100 where none counts
    positions: Tensor  # (T,) int32
    cu_seqlens: Tensor  # (S+1,) int32
    max_seqlen: int
    inputs: int
    counted: int
    """Targets that are not -100."""
    segments: int
    packs: int
    squares: int
    """The sum of squared segment lengths: what attention's share of the FLOPs grows with."""


def move(batch: PackedBatch, device: torch.device, static: Shape | None = None, pinned: bool = False) -> MicroBatch:
    """Put a batch on the device, filled to a static shape where few rows are missing; pinned, nothing waits for it."""
    lengths = np.ediff1d(batch.cu_seqlens.astype(np.int64))
    whole = _filled(batch, static)

    def tensor(numbers: np.ndarray) -> Tensor:
        host = torch.from_numpy(np.ascontiguousarray(numbers))
        return host.pin_memory().to(device, non_blocking=True) if pinned else host.to(device)

    return MicroBatch(
        tokens=tensor(whole.tokens),
        targets=tensor(whole.targets).long(),
        positions=tensor(whole.positions),
        cu_seqlens=tensor(whole.cu_seqlens),
        max_seqlen=static.longest if static and len(whole.tokens) == static.rows else whole.max_seqlen,
        inputs=len(batch.tokens),
        counted=int(np.count_nonzero(batch.targets != IGNORED)),
        segments=len(lengths),
        packs=len(batch.pack_lengths),
        squares=int((lengths**2).sum()),
    )


def _filled(batch: PackedBatch, static: Shape | None) -> PackedBatch:
    """Add one last segment without targets; an epoch's last batch, which is much shorter, stays as it is."""
    missing = 0 if static is None else static.rows - len(batch.tokens)
    if static is None or not 0 < missing <= min(STATIC_SHARE * static.rows, static.longest):
        return batch
    return replace(
        batch,
        tokens=np.append(batch.tokens, np.zeros(missing, np.int32)),
        targets=np.append(batch.targets, np.full(missing, IGNORED, np.int32)),
        positions=np.append(batch.positions, np.arange(missing, dtype=np.int32)),
        cu_seqlens=np.append(batch.cu_seqlens, np.int32(static.rows)),
        max_seqlen=max(batch.max_seqlen, missing),
        pack_lengths=(*batch.pack_lengths, missing),
    )
