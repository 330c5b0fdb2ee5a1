"""Precision: what each choice computes in, and the same numbers on CPUs without BF16 units."""

from __future__ import annotations

import pytest
import torch

from lab.training import precision

CPU = torch.device("cpu")


def test_bf16_autocast_multiplies_in_bf16_and_fp32_does_not():
    x, weight = torch.ones(2, 3), torch.ones(4, 3)

    with precision.computing("bf16-autocast", CPU):
        mixed = precision.linear(x, weight)
    with precision.computing("fp32", CPU):
        plain = precision.linear(x, weight)

    assert (mixed.dtype, plain.dtype) == (torch.bfloat16, torch.float32)


@pytest.mark.parametrize("gradient", [False, True])
def test_without_bf16_units_the_same_rounded_operands_are_multiplied(monkeypatch, gradient):
    x, weight = torch.randn(64, 48, requires_grad=True), torch.randn(80, 48, requires_grad=True)

    def product(has_units):
        monkeypatch.setattr(precision, "multiplies_bf16", lambda: has_units)
        x.grad = weight.grad = None
        with precision.computing("bf16-autocast", CPU):
            out = precision.linear(x, weight)
        out.float().square().sum().backward()
        return [x.grad, weight.grad] if gradient else [out.detach()]

    for with_units, without in zip(product(True), product(False), strict=True):
        assert with_units.dtype == without.dtype
        error = (with_units.float() - without.float()).norm() / with_units.float().norm()
        assert error < 4e-3
