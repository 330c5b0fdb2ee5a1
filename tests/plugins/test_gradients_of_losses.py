"""Gradients of every loss in mixed precision against FP32, on a GPU at GPT-2's size and on a CPU at a small one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from torch_here import parts_here

from lab.experiment import PartChoice
from lab.plugins import Plugins
from lab_torch.cross_entropy import CrossEntropy

if TYPE_CHECKING:
    from torch import Tensor

    from lab.contracts import Loss

ONLY_ON_A_GPU = {"liger"}
"""Triton's interpreter stands in for it on a CPU: tests/plugins/test_lab_liger.py."""
FEW_AND_MANY = {"chunked": ({"rows": 8192}, {"rows": 64}), "padded": ({"chunks": 1}, {"chunks": 128})}
CASES = [
    pytest.param(name, device, marks=[pytest.mark.gpu] if device == "cuda" else [])
    for name in parts_here("loss")
    for device in ("cpu", "cuda")
    if device == "cuda" or name not in ONLY_ON_A_GPU
]


def built(name: str, **options: int) -> Loss:
    return Plugins().build("loss", PartChoice.model_validate({"name": name, **options}))


def inputs(tokens: int, vocabulary: int, device: str) -> tuple[Tensor, Tensor, Tensor]:
    """About three targets in ten are ignored."""
    generator = torch.Generator().manual_seed(7)
    hidden, head = torch.randn(tokens, 64, generator=generator), 0.1 * torch.randn(vocabulary, 64, generator=generator)
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    targets[torch.rand(tokens, generator=generator) < 0.3] = -100
    return hidden.to(device), head.to(device), targets.to(device)


def gradients(loss: Loss, case: tuple[Tensor, Tensor, Tensor], *, mixed: bool, weight: float = 1.0) -> list[Tensor]:
    hidden, head, targets = case
    leaves = hidden.clone().requires_grad_(), head.clone().requires_grad_()
    with torch.autocast(hidden.device.type, dtype=torch.bfloat16, enabled=mixed):
        total = loss(*leaves, targets)
    return list(torch.autograd.grad(total * weight, leaves))


def error(got: Tensor, wanted: Tensor) -> float:
    return float((got.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize(("name", "device"), CASES)
def test_a_weighted_sum_has_the_gradients_of_fp32_within_the_rounding_of_bf16(name: str, device: str) -> None:
    """One weight for the whole sum is all that the contract knows: a loss gives one number."""
    case = inputs(256, 1003, device)

    mixed = gradients(built(name), case, mixed=True, weight=0.37)

    exact = gradients(CrossEntropy(), case, mixed=False, weight=0.37)
    assert [error(got, wanted) < 1e-2 for got, wanted in zip(mixed, exact, strict=True)] == [True, True]


@pytest.mark.parametrize("name", FEW_AND_MANY)
@pytest.mark.parametrize(
    ("device", "tokens", "vocabulary"), [("cpu", 2048, 515), pytest.param("cuda", 8192, 50_257, marks=pytest.mark.gpu)]
)
def test_many_chunks_blur_the_heads_gradient_no_more_than_few(
    name: str, device: str, tokens: int, vocabulary: int
) -> None:
    case = inputs(tokens, vocabulary, device)
    exact = gradients(CrossEntropy(), case, mixed=False)[1]

    few, many = (error(gradients(built(name, **how), case, mixed=True)[1], exact) for how in FEW_AND_MANY[name])

    assert many < 1.1 * few
