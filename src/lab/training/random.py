"""Every random generator of the process: seeded, saved and restored together, as tensors of bytes and JSON."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

if TYPE_CHECKING:
    from collections.abc import Mapping


def seed_everything(seed: int) -> None:
    """Start every generator from one seed; numpy's takes 32 bits of it."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def state() -> dict[str, Any]:
    """Where every generator stands."""
    numpy_state = np.random.get_state(legacy=False)
    numpy_state["state"]["key"] = numpy_state["state"]["key"].tolist()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": json.dumps(random.getstate()),
        "numpy": json.dumps(numpy_state),
    }


def restore(saved: Mapping[str, Any]) -> None:
    """Put every generator where `state` found it; those of other GPUs than it knew stay as they are."""
    torch.set_rng_state(saved["torch"])
    if saved["cuda"] and torch.cuda.device_count() == len(saved["cuda"]):
        torch.cuda.set_rng_state_all(saved["cuda"])
    version, internal, gauss = json.loads(saved["python"])
    random.setstate((version, tuple(internal), gauss))
    numpy_state = json.loads(saved["numpy"])
    numpy_state["state"]["key"] = np.array(numpy_state["state"]["key"], dtype=np.uint32)
    np.random.set_state(numpy_state)
