"""The test that a provider passes on its own device before it may train: values, gradients and isolation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from lab_flash_varlen import reference

if TYPE_CHECKING:
    from torch import Tensor

    from lab_flash_varlen.kernels import Attend

LENGTHS = (5, 17, 1, 64, 33)
EMPTY_TAIL = 3
"""Zero-length segments at the end, as every padded plan has them."""
HEADS, HEAD_DIM = 4, 64
TOLERANCE = 0.03
"""Relative L2 against FP32 math on the same BF16 inputs."""
LEAK = "leak into other segments"


def figures(attend: Attend, device: torch.device) -> dict[str, float]:
    """Relative L2 errors of the output and the three gradients, and the largest change that leaks out of a segment."""
    generator = torch.Generator().manual_seed(0)
    total = sum(LENGTHS)
    starts = [0, *torch.tensor(LENGTHS).cumsum(0).tolist(), *[total] * EMPTY_TAIL]
    cu_seqlens = torch.tensor(starts, dtype=torch.int32, device=device)
    drawn = [torch.randn(total, HEADS, HEAD_DIM, generator=generator) for _ in range(4)]
    q, k, v, grad = (tensor.to(device, torch.bfloat16) for tensor in drawn)

    out, gradients = _run(attend, q, k, v, grad, cu_seqlens)
    expected, _ = reference.forward(q.float(), k.float(), v.float(), cu_seqlens, None)
    wanted = reference.backward(grad.float(), q.float(), k.float(), v.float(), cu_seqlens, None)
    errors = {"output": _relative(out, expected)}
    for name, got, right in zip(("dq", "dk", "dv"), gradients, wanted, strict=True):
        errors[name] = _relative(got, right)

    others = slice(LENGTHS[0], None)
    changed = [tensor.clone() for tensor in (q, k, v)]
    for tensor in changed:
        tensor[: LENGTHS[0]] += 1
    moved, moved_gradients = _run(attend, changed[0], changed[1], changed[2], grad, cu_seqlens)
    pairs = zip((out, *gradients), (moved, *moved_gradients), strict=True)
    errors[LEAK] = max((before[others] - after[others]).abs().max().item() for before, after in pairs)
    return errors


def verdict(errors: dict[str, float]) -> str | None:
    """The figures that are out of tolerance, in words; None when there are none."""
    # `not <=` so that a NaN fails too.
    wrong = [name for name, error in errors.items() if not error <= (0.0 if name == LEAK else TOLERANCE)]
    return ", ".join(f"{name} {errors[name]:.3g}" for name in wrong) or None


def _run(
    attend: Attend, q: Tensor, k: Tensor, v: Tensor, grad: Tensor, cu_seqlens: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    inputs = [tensor.detach().requires_grad_() for tensor in (q, k, v)]
    with torch.enable_grad(), torch.autocast(q.device.type, enabled=False):
        out = attend(inputs[0], inputs[1], inputs[2], cu_seqlens, max(LENGTHS))
        gradients = torch.autograd.grad(out, inputs, grad)
    return out.detach(), gradients


def _relative(got: Tensor, right: Tensor) -> float:
    return float((got.float() - right).norm() / right.norm())
