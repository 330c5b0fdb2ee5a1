"""`torch-linear` equals plain cross-entropy and keeps its sum in FP32 under BF16 autocast.

Left out where torch lacks the operator: conftest.py.
"""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from lab_torch.options import TorchLinearOptions
from lab_torch.torch_linear import TorchLinearLoss


def inputs(dtype: torch.dtype, tokens: int = 129) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    hidden = torch.randn(tokens, 32, generator=generator).to(dtype).requires_grad_()
    head = torch.randn(301, 32, generator=generator).to(dtype).requires_grad_()
    targets = torch.randint(0, 301, (tokens,), generator=generator)
    targets[::5] = -100
    return hidden, head, targets


def plain(hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
    hidden, head = (tensor.detach().double().requires_grad_() for tensor in (hidden, head))
    total = functional.cross_entropy(hidden @ head.t(), targets, reduction="sum", ignore_index=-100)
    return total, *torch.autograd.grad(total, (hidden, head))


@pytest.mark.parametrize("chunks", [1, 3, 1000])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
@pytest.mark.parametrize("autocast", [False, True])
def test_it_equals_plain_cross_entropy_also_under_bf16_autocast(
    dtype: torch.dtype, tolerance: float, chunks: int, autocast: bool
) -> None:
    hidden, head, targets = inputs(dtype)

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        total = TorchLinearLoss(TorchLinearOptions(chunks=chunks))(hidden, head, targets)
    gradients = torch.autograd.grad(total, (hidden, head))

    assert total.dtype == dtype
    for got, right in zip((total, *gradients), plain(hidden, head, targets), strict=True):
        assert (got.double() - right).norm() / right.norm() < tolerance


def test_thousands_of_losses_are_not_summed_in_bf16() -> None:
    hidden = torch.zeros(4096, 8)
    head = torch.zeros(59874, 8)
    targets = torch.zeros(4096, dtype=torch.int64)

    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        total = TorchLinearLoss()(hidden, head, targets)

    # Every loss is ln 59874 = 11.00; a BF16 sum of 4,096 of them stops growing far below.
    assert total.item() == pytest.approx(4096 * 11.0, rel=1e-5)
