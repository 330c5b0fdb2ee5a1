"""The plain references and the faster forms: one value, one gradient, and never the whole logits."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import lab_torch.chunked
import lab_torch.sdpa
from lab.conformance.attention import check_attention
from lab.conformance.loss import check_loss
from lab.errors import LabError
from lab_torch.chunked import ChunkedCrossEntropy
from lab_torch.cross_entropy import CrossEntropy
from lab_torch.options import ChunkedOptions, SdpaOptions
from lab_torch.sdpa import SegmentAttention
from lab_torch.torch_linear import TorchLinearLoss

TYPES = [torch.float64, torch.float32, torch.bfloat16]
BF16_TOLERANCE = 5e-3
"""Relative L2 between the BF16 forms of one product: half a step of its eight bits, seldom twice."""


@pytest.fixture(params=[True, False], ids=["with BF16 units", "without BF16 units"])
def bf16_units(request, monkeypatch):
    for module in (lab_torch.chunked, lab_torch.sdpa):
        monkeypatch.setattr(module, "multiplies_bf16", lambda device: request.param)


@pytest.mark.usefixtures("bf16_units")
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("batching", ["none", "equal-lengths"])
def test_attention_equals_plain_math_and_leaks_nothing(batching, dtype):
    check_attention(SegmentAttention(SdpaOptions(batching=batching)), dtype=dtype)


def test_segments_of_one_length_are_taken_at_once_where_that_saves_calls():
    attention = SegmentAttention(SdpaOptions(batching="equal-lengths"))
    many = torch.tensor([3, 5] * 6).cumsum(0)

    together = attention.plan(torch.cat([torch.zeros(1), many]).to(torch.int32), 5)
    different = attention.plan(torch.tensor([0, 3, 8, 10], dtype=torch.int32), 5)

    assert together.calls == ((6, 3), (6, 5))
    assert different.calls == ((1, 3), (1, 5), (1, 2))


def test_both_ways_of_batching_give_the_same_numbers():
    lengths = [7, 3, 7, 7, 3, 1, 1, 1, 7]
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    q, k, v = torch.randn(3, sum(lengths), 2, 8, dtype=torch.float64).unbind()

    results = []
    for batching in ("none", "equal-lengths"):
        attention = SegmentAttention(SdpaOptions(batching=batching))
        results.append(attention(q, k, v, attention.plan(offsets, 7)))

    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-15)


def test_a_document_behind_another_has_the_bits_that_it_has_alone():
    q, k, v = torch.randn(7, 3, 2, 8, generator=torch.Generator().manual_seed(1)).unbind(1)
    attention = SegmentAttention(SdpaOptions(batching="none"))

    packed = attention(q, k, v, attention.plan(torch.tensor([0, 3, 7], dtype=torch.int32), 4))
    alone = attention(q[3:], k[3:], v[3:], attention.plan(torch.tensor([0, 4], dtype=torch.int32), 4))

    assert torch.equal(packed[3:], alone)


LOSSES = {
    "cross-entropy": CrossEntropy(),
    "chunked": ChunkedCrossEntropy(),
    "chunked, 64 rows": ChunkedCrossEntropy(ChunkedOptions(rows=64)),
    "chunked, one row": ChunkedCrossEntropy(ChunkedOptions(rows=1)),
}


@pytest.mark.usefixtures("bf16_units")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("autocast", [None, torch.bfloat16], ids=["plain", "autocast"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_loss_equals_the_fp64_sum_of_cross_entropies(name, dtype, autocast):
    check_loss(LOSSES[name], dtype=dtype, autocast=autocast)


def scored(loss, hidden, head, targets, autocast=True, factor=1.0):
    hidden, head = hidden.clone().requires_grad_(), head.clone().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        total = loss(hidden, head, targets)
    (total * factor).backward()
    return total.detach(), hidden.grad, head.grad


def inputs(tokens=700, width=32, vocabulary=900):
    generator = torch.Generator().manual_seed(4)
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    targets[::5] = -100
    hidden, head = (torch.randn(rows, width, generator=generator) for rows in (tokens, vocabulary))
    return hidden, 0.1 * head, targets


def relative(got, wanted):
    return ((got.double() - wanted.double()).norm() / wanted.double().norm()).item()


@pytest.mark.usefixtures("bf16_units")
def test_a_bf16_head_equals_the_reference_under_autocast_within_its_rounding():
    case = inputs()

    chunked, reference = scored(ChunkedCrossEntropy(), *case), scored(CrossEntropy(), *case)

    assert relative(chunked[0], reference[0]) < 1e-4
    assert relative(chunked[1], reference[1]) < BF16_TOLERANCE
    assert relative(chunked[2], reference[2]) < BF16_TOLERANCE


def test_the_error_of_the_heads_gradient_does_not_grow_with_the_number_of_chunks():
    case = inputs(tokens=2048)
    exact = scored(CrossEntropy(), *(x.double() if x.is_floating_point() else x for x in case), autocast=False)

    few, many = (scored(ChunkedCrossEntropy(ChunkedOptions(rows=rows)), *case) for rows in (2048, 16))

    assert relative(many[2], exact[2]) < 1.1 * relative(few[2], exact[2])


def test_a_factor_on_the_sum_reaches_both_gradients():
    case = inputs()

    plain = scored(ChunkedCrossEntropy(), *case, autocast=False)
    scaled = scored(ChunkedCrossEntropy(), *case, autocast=False, factor=3.0)

    torch.testing.assert_close(scaled[1], 3 * plain[1])
    torch.testing.assert_close(scaled[2], 3 * plain[2])


def test_large_logits_overflow_nothing():
    hidden, head, targets = inputs()

    total, *gradients = scored(ChunkedCrossEntropy(), 1e4 * hidden, head, targets, autocast=False)

    assert total.isfinite()
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_torch_without_the_operator_is_told_what_else_to_use(monkeypatch):
    monkeypatch.delattr(functional, "linear_cross_entropy", raising=False)

    with pytest.raises(LabError, match=r"needs torch 2\.13 or newer") as caught:
        TorchLinearLoss()

    assert '"padded"' in caught.value.do


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that any operation makes."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for made in out if isinstance(out, (tuple, list)) else [out]:
            if isinstance(made, torch.Tensor):
                self.elements = max(self.elements, made.numel())
        return out


@pytest.mark.parametrize("autocast", [False, True])
def test_the_whole_logits_never_exist(autocast):
    hidden, head, targets = inputs(tokens=512, vocabulary=300)
    loss = ChunkedCrossEntropy(ChunkedOptions(rows=64))

    with Largest() as largest:
        scored(loss, hidden, head, targets, autocast=autocast)

    assert largest.elements <= 64 * 300
    with Largest() as largest:
        scored(CrossEntropy(), hidden, head, targets, autocast=autocast)
    assert largest.elements >= 512 * 300
