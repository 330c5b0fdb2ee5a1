"""Every attention and loss that is installed keeps its contract, and the checks fail for parts that do not."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch_here import parts_here

from lab.conformance import ContractBroken
from lab.experiment import PartChoice
from lab.plugins import Plugins

PLUGINS = Plugins()
ON_A_CPU = {
    ("attention", "flash-varlen"): {"provider": "reference"},
}
ONLY_ON_A_GPU = {("loss", "liger")}
FORWARD_ONLY_ON_A_CPU = {("attention", "flex")}
PRECISIONS = [torch.float64, torch.float32, torch.bfloat16]


def installed(kind):
    return [name for name in parts_here(kind) if (kind, name) not in ONLY_ON_A_GPU]


def built(kind, name, **options):
    return PLUGINS.build(kind, PartChoice(name=name, **options))


def test_no_part_is_left_out_but_what_an_older_torch_lacks():
    lacking = set() if hasattr(functional, "linear_cross_entropy") else {"torch-linear"}

    assert {*PLUGINS.parts("attention"), *PLUGINS.parts("loss")} - {*parts_here("attention"), *parts_here("loss")} == (
        lacking
    )


@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@pytest.mark.parametrize("dtype", PRECISIONS, ids=str)
@pytest.mark.parametrize("name", installed("attention"))
def test_an_attention_on_the_cpu(check_attention, name, dtype):
    attention = built("attention", name, **ON_A_CPU.get(("attention", name), {}))

    if ("attention", name) in FORWARD_ONLY_ON_A_CPU:
        check_attention(attention, dtype=dtype, backward=False, mixes=[(5, 17, 1, 33)])
    else:
        check_attention(attention, dtype=dtype)


@pytest.mark.parametrize("dtype", PRECISIONS[:2], ids=str)
@pytest.mark.parametrize("name", installed("loss"))
def test_a_loss_on_the_cpu(check_loss, name, dtype):
    check_loss(built("loss", name, **ON_A_CPU.get(("loss", name), {})), dtype=dtype)


@pytest.mark.parametrize("name", installed("loss"))
def test_a_loss_in_mixed_precision_on_the_cpu(check_loss, name):
    check_loss(built("loss", name, **ON_A_CPU.get(("loss", name), {})), autocast=torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("name", parts_here("attention"))
def test_an_attention_on_the_gpu(check_attention, name):
    check_attention(built("attention", name), device="cuda", dtype=torch.bfloat16)


@pytest.mark.gpu
@pytest.mark.parametrize("name", parts_here("loss"))
def test_a_loss_on_the_gpu(check_loss, name):
    check_loss(built("loss", name), device="cuda", autocast=torch.bfloat16)


class Dense:
    """Attends over the whole batch: what the segments exist to prevent."""

    def plan(self, cu_seqlens, max_seqlen):
        return cu_seqlens.tolist()

    def __call__(self, q, k, v, plan):
        heads_first = (x.transpose(0, 1)[None] for x in (q, k, v))
        return scaled_dot_product_attention(*heads_first, is_causal=True)[0].transpose(0, 1)


class Segments(Dense):
    """Right, except for what a subclass breaks."""

    causal, scale, offset = True, None, 0

    def __call__(self, q, k, v, plan):
        sizes = [end - start for start, end in itertools.pairwise(plan)]
        pieces = zip(q.split(sizes), k.split(sizes), v.split(sizes), strict=True)
        return torch.cat([self.one(*(x.transpose(0, 1)[None] for x in piece)) for piece in pieces])

    def one(self, q, k, v):
        out = scaled_dot_product_attention(q, k, v, is_causal=self.causal, scale=self.scale)
        return out[0].transpose(0, 1)


class SeesTheFuture(Segments):
    causal = False


class Unscaled(Segments):
    scale = 1.0


class InHalfPrecision(Segments):
    def __call__(self, q, k, v, plan):
        return super().__call__(q.bfloat16(), k.bfloat16(), v.bfloat16(), plan).to(q.dtype)


class ReturnsAnotherDtype(Segments):
    def __call__(self, q, k, v, plan):
        return super().__call__(q, k, v, plan).double()


class ChangesItsInputs(Segments):
    def __call__(self, q, k, v, plan):
        out = super().__call__(q, k, v, plan)
        with torch.no_grad():
            q.mul_(0.5)
        return out


class SpendsItsPlan(Segments):
    def __call__(self, q, k, v, plan):
        out = super().__call__(q, k, v, plan)
        if len(plan) > 2:
            del plan[1]
        return out


class LeaksALittle(Segments):
    """A part in a billion of the batch's mean: no tolerance would notice it."""

    def __call__(self, q, k, v, plan):
        return super().__call__(q, k, v, plan) + 1e-9 * v.detach().abs().max()


class LeaksInItsGradient(Segments):
    def __call__(self, q, k, v, plan):
        out = super().__call__(q, k, v, plan)
        return out + 1e-7 * (v.sum() - v.sum().detach())


class LosesAGradient(Segments):
    def __call__(self, q, k, v, plan):
        return super().__call__(q, k.detach() + 0 * k, v, plan)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (Dense, "differs from plain attention"),
        (SeesTheFuture, "differs from plain attention"),
        (Unscaled, "differs from plain attention"),
        (InHalfPrecision, "differs from plain attention"),
        (ReturnsAnotherDtype, "the result is torch.float64, not torch.float32"),
        (ChangesItsInputs, "changes q, k, v or cu_seqlens in place"),
        (SpendsItsPlan, "differs from plain attention|a plan used twice"),
        (LeaksALittle, "changing segment 0 changes another one"),
        (LeaksInItsGradient, "a loss on segment 0 has gradients in others"),
        (LosesAGradient, "the gradient of k differs"),
    ],
)
def test_an_attention_that_breaks_its_contract_is_found(check_attention, broken, why):
    with pytest.raises(ContractBroken, match=why):
        check_attention(broken())


def test_the_broken_attentions_are_right_but_for_what_they_break(check_attention):
    check_attention(Segments())


def right(hidden, head, targets, reduction="sum", ignore_index=-100):
    return cross_entropy((hidden @ head.T).float(), targets, ignore_index=ignore_index, reduction=reduction)


def mean(hidden, head, targets):
    return right(hidden, head, targets, "mean")


def a_sum_of_each(hidden, head, targets):
    return right(hidden, head, targets, "none")


def counts_what_is_ignored(hidden, head, targets):
    return right(hidden, head, targets.clamp(min=0))


def in_half_precision(hidden, head, targets):
    return cross_entropy(hidden.bfloat16() @ head.bfloat16().T, targets, ignore_index=-100, reduction="sum")


def no_gradient_of_the_head(hidden, head, targets):
    return right(hidden, head.detach(), targets)


def doubled_gradient(hidden, head, targets):
    total = right(hidden, head, targets)
    return 2 * total - total.detach()


def nan_when_all_is_ignored(hidden, head, targets):
    counted = (targets != -100).sum()
    return right(hidden, head, targets) * (counted / counted)


def changes_the_targets(hidden, head, targets):
    total = right(hidden, head, targets)
    targets.clamp_(min=0)
    return total


class OverwritesGradients:
    """Writes the head's gradient instead of adding to it, as a fused kernel may."""

    def __call__(self, hidden, head, targets):
        head.grad = None
        return right(hidden, head, targets)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (mean, "the sum is"),
        (a_sum_of_each, "has shape"),
        (counts_what_is_ignored, "the sum is"),
        (in_half_precision, "the sum is torch.bfloat16"),
        (no_gradient_of_the_head, "gives hidden or head no gradient"),
        (doubled_gradient, "the gradient of hidden is"),
        (nan_when_all_is_ignored, "must be exactly zero"),
        (changes_the_targets, "changes its inputs in place"),
        (OverwritesGradients(), "do not add up"),
    ],
)
def test_a_loss_that_breaks_its_contract_is_found(check_loss, broken, why):
    with pytest.raises(ContractBroken, match=why):
        check_loss(broken)


def test_the_broken_losses_are_right_but_for_what_they_break(check_loss):
    check_loss(right)
