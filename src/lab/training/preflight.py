"""Kernel checks before training: the experiment's attention and loss against plain math, on the device that trains.

A check is a function from a `Subject` to findings; `CHECKS` lists those that every run makes, and `run` takes others.
Shapes: T tokens, H heads, D head width, d model width, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch.nn import functional

from lab.contracts.loss import IGNORED
from lab.training.precision import BF16_AUTOCAST, computing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch import Tensor

    from lab.contracts import Attention, Loss

    Check = Callable[["Subject"], Iterator["Finding"]]

LENGTHS = [5, 17, 1, 64, 33]
HEADS, HEAD_WIDTH = 4, 16
GRADIENTS_LIMIT = 0.03
EXACT_LIMIT = 0.005
"""Relative L2 without BF16: what TF32 rounds."""


@dataclass(frozen=True)
class Subject:
    """What is checked: the parts of one experiment, at its precision, on its device."""

    attention: Attention | None
    loss: Loss | None
    device: torch.device
    precision: str

    @property
    def dtype(self) -> torch.dtype:
        """What attention receives."""
        return torch.bfloat16 if self.precision == BF16_AUTOCAST else torch.float32

    @property
    def limit(self) -> float:
        """The relative L2 error that rounding explains."""
        return GRADIENTS_LIMIT if self.precision == BF16_AUTOCAST else EXACT_LIMIT


@dataclass(frozen=True)
class Finding:
    """One figure and the most it may be; a check that could not be made has a reason instead."""

    name: str
    figure: float = 0.0
    limit: float = 0.0
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Whether training may start as far as this figure goes; a figure that is not a number never passes."""
        return not self.reason and self.figure <= self.limit

    def __str__(self) -> str:
        word = "passed" if self.passed else "FAILED"
        return f"{word}  {self.name}: {self.reason or f'{self.figure:.3g} (limit {self.limit:.3g})'}"


def run(subject: Subject, checks: Sequence[Check] | None = None) -> Iterator[Finding]:
    """Make every check; one that raises is a finding too, because then training would.

    A part that says itself that it cannot train here is not tried further: its reason is what helps.
    """
    for check in CHECKS if checks is None else checks:
        refused = []
        try:
            for finding in check(subject):
                refused += [finding.name] if finding.name in ("attention", "loss") and finding.reason else []
                yield finding
        except Exception as error:
            yield Finding(check.__name__.replace("_", " "), reason=f"{type(error).__name__}: {error}")
        subject = replace(
            subject,
            attention=None if "attention" in refused else subject.attention,
            loss=None if "loss" in refused else subject.loss,
        )


def parts_can_train_here(subject: Subject) -> Iterator[Finding]:
    """Ask each part that knows: its library, its kernels, its own test."""
    for kind, part in (("attention", subject.attention), ("loss", subject.loss)):
        ask = getattr(part, "preflight", None)
        reason = ask(subject.device) if ask is not None else None
        if reason:
            yield Finding(kind, reason=str(reason))


def attention_equals_plain_math(subject: Subject) -> Iterator[Finding]:
    """Output and gradients against a softmax over each segment in FP32; and no segment sees another one."""
    if subject.attention is None:
        return
    attention = subject.attention
    inputs = [x.to(subject.device, subject.dtype) for x in _drawn(4, sum(LENGTHS), HEADS, HEAD_WIDTH)]
    offsets = torch.tensor([0, *LENGTHS]).cumsum(0).to(subject.device, torch.int32)
    plan = attention.plan(offsets, max(LENGTHS))
    candidate = _attended(lambda q, k, v: attention(q, k, v, plan), inputs)
    reference = _attended(_plain_attention, [x.float() for x in inputs])
    for name, got, wanted in zip(("output", "dq", "dk", "dv"), candidate, reference, strict=True):
        yield Finding(f"attention {name}", relative(got, wanted), subject.limit)
    q, k, v = (x.clone() for x in inputs[:3])
    for x in (q, k, v):
        x[: LENGTHS[0]] += 1
    with torch.no_grad():
        others = attention(q, k, v, plan)[LENGTHS[0] :]
    yield Finding("attention across segments", float((others - candidate[0][LENGTHS[0] :]).abs().max()), 0.0)


def loss_equals_plain_math(subject: Subject) -> Iterator[Finding]:
    """Sum and gradients against cross-entropy in FP32, small and in many chunks; the sum itself must be FP32."""
    if subject.loss is None:
        return
    many = (8193, 64, 8192) if subject.device.type == "cuda" else (2049, 64, 1024)
    for (tokens, width, vocabulary), limit in (((257, 64, 512), 2e-3), (many, 5e-4)):
        hidden, head = (x.to(subject.device) for x in (_normal(tokens, width), 0.1 * _normal(vocabulary, width)))
        targets = torch.randint(vocabulary, (tokens,), generator=_generator()).to(subject.device)
        targets[::9] = IGNORED
        with computing(subject.precision, subject.device):
            candidate = _scored(subject.loss, hidden, head, targets)
        reference = _scored(getattr(subject.loss, "reference", _plain_loss), hidden, head, targets)
        size = f"{tokens} x {width} x {vocabulary}"
        if candidate[0].dtype != torch.float32:
            yield Finding(f"loss {size}", reason=f"the sum is {candidate[0].dtype}, not FP32")
        counted = int((targets != IGNORED).sum())
        yield Finding(f"loss {size}", abs(float(candidate[0] - reference[0])) / counted, limit)
        for name, got, wanted in zip(("hidden", "head"), candidate[1:], reference[1:], strict=True):
            yield Finding(f"loss {size} gradient of {name}", relative(got, wanted), subject.limit)


CHECKS = (parts_can_train_here, attention_equals_plain_math, loss_equals_plain_math)


def relative(got: Tensor, wanted: Tensor) -> float:
    """The L2 norm of the difference over that of `wanted`."""
    return float((got.float() - wanted.float()).norm() / wanted.float().norm())


def _generator() -> torch.Generator:
    return torch.Generator("cpu").manual_seed(20261003)


def _normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=_generator())


def _drawn(count: int, *shape: int) -> tuple[Tensor, ...]:
    return torch.randn(count, *shape, generator=_generator()).unbind()


def _attended(attend: Callable[..., Tensor], inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """The output and the gradients of q, k and v for a fixed gradient of the output."""
    *qkv, upstream = inputs
    leaves = [x.clone().requires_grad_() for x in qkv]
    output = attend(*leaves)
    return output.detach(), *torch.autograd.grad(output, leaves, upstream)


def _plain_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """(T, H, D) each -> (T, H, D), a segment at a time."""
    parts = zip(*(torch.split(x.transpose(0, 1), LENGTHS, 1) for x in (q, k, v)), strict=True)  # (H, length, D)
    attended = []
    for a, b, c in parts:
        future = torch.ones(a.shape[1], a.shape[1], dtype=torch.bool, device=a.device).triu(1)
        scores = (a @ b.transpose(1, 2)) * a.shape[2] ** -0.5
        attended.append(scores.masked_fill(future, -torch.inf).softmax(-1) @ c)
    return torch.cat(attended, 1).transpose(0, 1)


def _plain_loss(hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(hidden @ head.t(), targets, ignore_index=IGNORED, reduction="sum")


def _scored(loss: Loss, hidden: Tensor, head: Tensor, targets: Tensor) -> tuple[Tensor, ...]:
    """The sum and the gradients of hidden and head."""
    leaves = hidden.clone().requires_grad_(), head.clone().requires_grad_()
    total = loss(*leaves, targets)
    return total.detach(), *torch.autograd.grad(total, leaves)
