"""Runs `liger` in the interpreter, which must be chosen before Triton is imported; prints its figures as JSON."""

from __future__ import annotations

import json
import sys

import torch
from liger_kernel.ops import fused_linear_cross_entropy as module
from torch.nn.functional import cross_entropy

from lab_liger.loss import LigerLoss


def inputs(tokens: int, width: int, vocabulary: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    hidden = torch.randn(tokens, width, generator=generator).requires_grad_()
    head = (0.1 * torch.randn(vocabulary, width, generator=generator)).requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator)
    targets[::3] = -100
    return hidden, head, targets


def figures(tokens: int, width: int, vocabulary: int, autocast: bool) -> dict[str, object]:
    hidden, head, targets = inputs(tokens, width, vocabulary)
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        total = LigerLoss()(hidden, head, targets)
    gradients = torch.autograd.grad(total, (hidden, head))
    exact = [tensor.detach().double().requires_grad_() for tensor in (hidden, head)]
    right = cross_entropy(exact[0] @ exact[1].t(), targets, reduction="sum")
    wanted = torch.autograd.grad(right, exact)
    pairs = zip(("loss", "d_hidden", "d_head"), (total, *gradients), (right, *wanted), strict=True)
    errors = {name: float((got - expected).norm() / expected.norm()) for name, got, expected in pairs}
    return {**errors, "dtypes": [str(tensor.dtype) for tensor in (total, *gradients)]}


class Refuses:
    """Stands where Liger's rescaling kernel is; the fast path never launches it."""

    def __getitem__(self, grid: object) -> object:
        raise AssertionError("the gradients were rescaled")


def rescaled(factor: float) -> bool:
    hidden, head, targets = inputs(16, 8, 32)
    module.element_mul_kernel = Refuses()
    try:
        (LigerLoss()(hidden, head, targets) * factor).backward()
    except AssertionError:
        return True
    return False


def all_ignored() -> list[float]:
    hidden, head, targets = inputs(16, 8, 32)
    total = LigerLoss()(hidden, head, torch.full_like(targets, -100))
    total.backward()
    return [total.item(), hidden.grad.abs().max().item(), head.grad.abs().max().item()]


if __name__ == "__main__":
    found = {
        "fp32": figures(257, 64, 512, autocast=False),
        "bf16": figures(257, 64, 512, autocast=True),
        "odd": figures(65, 16, 1003, autocast=False),
        "all ignored": all_ignored(),
        "kernel": LigerLoss().kernel,
        "preflight": LigerLoss().preflight(torch.device("cpu")),
        "rescaled": rescaled(1.0),
        "rescaled with a factor": rescaled(2.0),
    }
    json.dump(found, sys.stdout)
