"""What "bf16-autocast" and "fp32" compute, on every device: parameters, gradients and moments are FP32 in both."""

from __future__ import annotations

import platform
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

BF16_AUTOCAST = "bf16-autocast"


@contextmanager
def computing(precision: str, device: torch.device) -> Iterator[None]:
    """Compute at the experiment's precision inside the block."""
    with torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == BF16_AUTOCAST):
        yield


def allow_tf32() -> None:
    """Let CUDA multiply FP32 matrices in TF32, as the baseline does."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True


@cache
def multiplies_bf16() -> bool:
    """Whether this CPU has units for BF16 products; without them PyTorch's are several times slower than FP32."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T; under BF16 autocast on a CPU without BF16 units, the same rounded operands multiplied in FP32."""
    plain = x.device.type != "cpu" or not torch.is_autocast_enabled("cpu")
    if plain or torch.compiler.is_compiling() or multiplies_bf16():  # compiled code cannot look the CPU up
        return functional.linear(x, weight)
    with torch.autocast("cpu", enabled=False):
        return functional.linear(x.bfloat16().float(), weight.bfloat16().float()).bfloat16()
