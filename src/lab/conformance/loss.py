"""Whether a loss is the FP32 sum of token cross-entropies, with the gradients of that sum.

Shapes: T tokens, d model width, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from lab.conformance import require
from lab.conformance.numbers import TOLERANCES, drawn, relative
from lab.contracts.loss import IGNORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from lab.contracts import Loss

SIZES = ((257, 64, 512), (1, 8, 16), (130, 24, 515))
"""(T, d, V): many rows, one row, and sizes that no block divides."""


def check_loss(
    loss: Loss,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    autocast: torch.dtype | None = None,
    tolerance: float | None = None,
    sizes: Sequence[tuple[int, int, int]] = SIZES,
) -> None:
    """Value and gradients equal those of `cross_entropy(reduction="sum")` in FP64; ignored targets count nowhere.

    A part with a method `reference` is held against that instead.

    `autocast` runs the part as a loop does in mixed precision. `tolerance` is the largest relative L2 error; by default
    1e-10 in FP64, 2e-5 in FP32, 3e-2 where BF16 or FP16 computes.
    """
    bound = TOLERANCES[autocast or dtype] if tolerance is None else tolerance
    for size in sizes:
        where = "T {} d {} V {}".format(*size)
        hidden, head, targets = _inputs(size, device, dtype)
        case = Case(loss, device, autocast)
        _check_sum(case, hidden, head, targets, bound, where)
        _check_no_mean(case, hidden, head, targets, bound)
        _check_ignored(case, hidden, head, targets, where)
        _check_accumulates(case, hidden, head, targets, bound)


class Case:
    """A loss as it is called: leaves that want gradients, in mixed precision or not."""

    def __init__(self, loss: Loss, device: str, autocast: torch.dtype | None) -> None:
        self.loss, self.device, self.autocast = loss, device, autocast

    def value(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """What the part returns."""
        enabled = self.autocast is not None
        with torch.autocast(torch.device(self.device).type, dtype=self.autocast, enabled=enabled):
            return self.loss(hidden, head, targets)

    def gradients(self, hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the part returns, and the gradients of hidden and head."""
        hidden, head = (x.detach().clone().requires_grad_() for x in (hidden, head))
        total = self.value(hidden, head, targets)
        torch.autograd.backward(total)
        require(hidden.grad is not None and head.grad is not None, "the loss gives hidden or head no gradient")
        assert hidden.grad is not None
        assert head.grad is not None
        return total.detach(), hidden.grad, head.grad


def _inputs(size: tuple[int, int, int], device: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    tokens, width, vocabulary = size
    hidden, head = drawn((tokens, width), 21), 0.1 * drawn((vocabulary, width), 22)
    targets = torch.randint(0, vocabulary, (tokens,), generator=torch.Generator().manual_seed(23))
    if tokens > 1:
        targets[::3] = IGNORED
        targets[1] = vocabulary - 1
    return hidden.to(device, dtype), head.to(device, dtype), targets.to(device)


def _plain(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(hidden @ head.T, targets, ignore_index=IGNORED, reduction="sum")


def _reference(loss: Loss, hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Plain cross-entropy in FP64, or the plain form that a part brings because it means something else."""
    hidden, head = (x.detach().double().cpu().requires_grad_() for x in (hidden, head))
    total = getattr(loss, "reference", _plain)(hidden, head, targets.cpu())
    d_hidden, d_head = torch.autograd.grad(total, (hidden, head))
    return total.detach(), d_hidden, d_head


def _check_sum(case: Case, hidden: Tensor, head: Tensor, targets: Tensor, bound: float, where: str) -> None:
    before = [x.clone() for x in (hidden, head, targets)]
    with torch.no_grad():
        evaluated = case.value(hidden, head, targets)
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    require(evaluated.shape == (), f"{where}: the loss has shape {tuple(evaluated.shape)}, it must be one number")
    require(evaluated.dtype in (exact, torch.float32), f"{where}: the sum is {evaluated.dtype}, it must be {exact}")
    kept = all(torch.equal(x, y) for x, y in zip(before, (hidden, head, targets), strict=True))
    require(kept, f"{where}: the loss changes its inputs in place")
    total, *gradients = case.gradients(hidden, head, targets)
    wanted, *expected = _reference(case.loss, hidden, head, targets)
    error = relative(total, wanted)
    require(error <= bound, f"{where}: the sum is {total:.6f}, plain math gives {wanted:.6f} ({error:.1e} off)")
    require(relative(evaluated, wanted) <= bound, f"{where}: without gradients the sum is {evaluated:.6f}")
    for name, gradient, right in zip(("hidden", "head"), gradients, expected, strict=True):
        error = relative(gradient, right)
        require(error <= bound, f"{where}: the gradient of {name} is {error:.1e} off (relative L2)")


def _check_no_mean(case: Case, hidden: Tensor, head: Tensor, targets: Tensor, bound: float) -> None:
    once = case.value(hidden, head, targets)
    twice = case.value(torch.cat([hidden, hidden]), head, torch.cat([targets, targets]))
    require(relative(twice, 2 * once) <= bound, "twice the rows do not give twice the loss: it is no plain sum")


def _check_ignored(case: Case, hidden: Tensor, head: Tensor, targets: Tensor, where: str) -> None:
    _, d_hidden, _ = case.gradients(hidden, head, targets)
    leaked = d_hidden[targets == IGNORED].abs().sum()
    require(float(leaked) == 0.0, f"{where}: rows whose target is ignored have a gradient")
    total, *gradients = case.gradients(hidden, head, torch.full_like(targets, IGNORED))
    zero = float(total) == 0.0 and all(float(gradient.abs().sum()) == 0.0 for gradient in gradients)
    require(zero, f"{where}: with every target ignored, loss and gradients must be exactly zero")


def _check_accumulates(case: Case, hidden: Tensor, head: Tensor, targets: Tensor, bound: float) -> None:
    """Two micro-batches before one update: their gradients of the head add up."""
    parts = [case.gradients(h, head, t)[2] for h, t in zip(hidden.chunk(2), targets.chunk(2), strict=True)]
    shared = head.detach().clone().requires_grad_()
    for h, t in zip(hidden.chunk(2), targets.chunk(2), strict=True):
        torch.autograd.backward(case.value(h.detach().clone().requires_grad_(), shared, t))
    assert shared.grad is not None
    error = relative(shared.grad, torch.stack(parts).double().sum(0))
    require(error <= bound, f"gradients of two micro-batches do not add up ({error:.1e} off)")
