"""SHA-256 over what must be equal before two runs are compared: weights, tokens fed, measurement scope."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import nn

    from lab.data.packing import PackedBatch

EMPTY = hashlib.sha256().hexdigest()
"""The rolling fingerprint before anything was fed."""
CLOCK = "packing, copy to the device, forward, backward, clipping, optimizer"


def weights(module: nn.Module) -> str:
    """Over the canonical state dict: names in order, type, shape and bytes; memory under a second name counts once."""
    digest = hashlib.sha256()
    seen: set[tuple[int, tuple[int, ...]]] = set()
    for name, tensor in sorted(module.state_dict().items()):
        place = (tensor.data_ptr(), tuple(tensor.shape))
        if place in seen:
            continue
        seen.add(place)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def fed(previous: str, batches: Iterable[PackedBatch]) -> str:
    """Roll `previous` on over every token, target and segment start of the batches."""
    for batch in batches:
        digest = hashlib.sha256(bytes.fromhex(previous))
        for numbers in (batch.tokens, batch.targets, batch.cu_seqlens):
            digest.update(len(numbers).to_bytes(8, "little"))
            digest.update(np.ascontiguousarray(numbers, dtype="<i4").data)
        previous = digest.hexdigest()
    return previous


def scope(warmup_steps: int, observed_steps: Iterable[int], timer: str) -> str:
    """Over what was measured how: the steps left out, what the clock covers, and what it reads."""
    measured = {"warmup": warmup_steps, "observed": sorted(observed_steps), "clock": CLOCK, "timer": timer}
    return hashlib.sha256(json.dumps(measured, sort_keys=True).encode()).hexdigest()
