"""What the device multiplies in hardware."""

from __future__ import annotations

import platform
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import device


def multiplies_bf16(device: device) -> bool:
    """Whether the device has units for BF16 products; on a CPU without them FP32 products are several times faster."""
    return device.type != "cpu" or _cpu_multiplies_bf16()


@cache
def _cpu_multiplies_bf16() -> bool:
    if platform.machine() not in ("x86_64", "AMD64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
