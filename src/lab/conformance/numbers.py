"""Numbers that the checks draw and compare: the same on every machine, and compared in FP64."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

TOLERANCES = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 3e-2}
"""The largest relative L2 error of values and gradients that rounding alone explains."""


def drawn(shape: tuple[int, ...], seed: int) -> Tensor:
    """Standard normal numbers in FP64, on the CPU."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def relative(got: Tensor, wanted: Tensor, scale: float = 0.0) -> float:
    """The L2 norm of the difference over that of `wanted`, or over `scale` where that is more.

    Infinite when a number is missing.
    """
    got, wanted = got.detach().double().cpu(), wanted.detach().double().cpu()
    if not bool(torch.isfinite(got).all()):
        return float("inf")
    return float((got - wanted).norm()) / max(float(wanted.norm()), scale, 1e-30)
