"""`padded` equals plain cross-entropy, in value and gradients, and never touches its added columns."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import cross_entropy

from lab_torch.options import PaddedOptions
from lab_torch.padded import PaddedLoss, score

TOKENS, WIDTH, VOCABULARY = 257, 64, 515
TOLERANCES = [(torch.float64, 1e-12, 1e-12), (torch.float32, 1e-6, 2e-6)]


def inputs(
    dtype: torch.dtype, tokens: int = TOKENS, vocabulary: int = VOCABULARY
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    hidden = torch.randn(tokens, WIDTH, generator=generator, dtype=torch.float64)
    head = 0.1 * torch.randn(vocabulary, WIDTH, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator)
    targets[::7] = -100
    return hidden.to(dtype).requires_grad_(), head.to(dtype).requires_grad_(), targets


def plain(hidden: torch.Tensor, head: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, ...]:
    hidden, head = (tensor.detach().double().requires_grad_() for tensor in (hidden, head))
    total = cross_entropy(hidden @ head.t(), targets, reduction="sum", ignore_index=-100)
    return total.detach(), *torch.autograd.grad(total, (hidden, head))


def relative(got: torch.Tensor, right: torch.Tensor) -> float:
    return ((got.double() - right).norm() / right.norm()).item()


@pytest.mark.parametrize("chunks", [1, 4, 100])
@pytest.mark.parametrize(("dtype", "loss_tolerance", "gradient_tolerance"), TOLERANCES)
def test_it_equals_plain_cross_entropy(
    dtype: torch.dtype, loss_tolerance: float, gradient_tolerance: float, chunks: int
) -> None:
    hidden, head, targets = inputs(dtype)

    total = PaddedLoss(PaddedOptions(chunks=chunks))(hidden, head, targets)
    gradients = torch.autograd.grad(total, (hidden, head))

    expected, *wanted = plain(hidden, head, targets)
    assert relative(total, expected) < loss_tolerance
    assert max(relative(got, right) for got, right in zip(gradients, wanted, strict=True)) < gradient_tolerance


@pytest.mark.parametrize("chunks", [1, 64])
def test_bf16_autocast_keeps_an_fp32_sum_that_many_chunks_do_not_blur(chunks: int) -> None:
    hidden, head, targets = inputs(torch.float32, tokens=2049)

    with torch.autocast("cpu", dtype=torch.bfloat16):
        total = PaddedLoss(PaddedOptions(chunks=chunks))(hidden, head, targets)
    gradients = torch.autograd.grad(total, (hidden, head))

    expected, *wanted = plain(hidden, head, targets)
    assert total.dtype == torch.float32
    assert [gradient.dtype for gradient in gradients] == [torch.float32, torch.float32]
    assert relative(total, expected) < 2e-4
    assert max(relative(got, right) for got, right in zip(gradients, wanted, strict=True)) < 5e-3


def test_an_upstream_factor_scales_every_gradient() -> None:
    hidden, head, targets = inputs(torch.float64)

    total = PaddedLoss()(hidden, head, targets)
    gradients = torch.autograd.grad(total * 3, (hidden, head))

    for got, right in zip(gradients, plain(hidden, head, targets)[1:], strict=True):
        torch.testing.assert_close(got, right * 3)


def test_targets_that_are_all_ignored_give_zero_and_zero_gradients() -> None:
    hidden, head, targets = inputs(torch.float32)

    total = PaddedLoss()(hidden, head, torch.full_like(targets, -100))
    gradients = torch.autograd.grad(total, (hidden, head))

    assert total.item() == 0
    assert all(gradient.abs().max() == 0 for gradient in gradients)


def test_without_gradients_only_the_sum_is_computed() -> None:
    hidden, head, targets = inputs(torch.float64)

    with torch.no_grad():
        total = PaddedLoss()(hidden, head, targets)

    assert not total.requires_grad
    assert relative(total, plain(hidden, head, targets)[0]) < 1e-12


def test_the_added_columns_stay_zero_so_they_are_their_own_gradient() -> None:
    hidden, head, targets = inputs(torch.float32)
    logits = torch.zeros(TOKENS, 576)
    logits[:, :VOCABULARY] = (hidden @ head.t()).detach()

    score(logits, targets, VOCABULARY)

    assert logits[:, VOCABULARY:].abs().max() == 0
    assert logits[:, :VOCABULARY].sum(1).abs().max() < 1e-5


def test_large_logits_do_not_overflow() -> None:
    hidden, head, targets = inputs(torch.float32)

    total = PaddedLoss()(hidden * 1e4, head, targets)

    assert torch.isfinite(total)
    assert relative(total, plain(hidden * 1e4, head, targets)[0]) < 1e-5


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-3)])
def test_the_compiled_softmax_gives_the_same_numbers(dtype: torch.dtype, tolerance: float) -> None:
    hidden, head, targets = inputs(torch.float32)
    torch._dynamo.reset()
    loss = PaddedLoss(PaddedOptions(chunks=2))
    # aot_eager traces and decomposes as inductor does, and needs no C++ compiler.
    loss._score = torch.compile(score, backend="aot_eager", fullgraph=True)

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
        compiled = loss(hidden, head, targets)
        eager = PaddedLoss(PaddedOptions(chunks=2))(hidden, head, targets)
    got = torch.autograd.grad(compiled, (hidden, head))
    right = torch.autograd.grad(eager, (hidden, head))

    assert relative(compiled, eager.double()) < tolerance
    assert all(relative(one, other.double()) < tolerance for one, other in zip(got, right, strict=True))


def test_the_compile_option_compiles_and_the_kernel_says_so() -> None:
    loss = PaddedLoss(PaddedOptions(chunks=4, compile=True))

    assert "4 chunks, compiled softmax" in loss.kernel


@pytest.mark.gpu
def test_no_step_waits_for_the_device() -> None:
    hidden, head, targets = (tensor.detach().cuda() for tensor in inputs(torch.float32))
    hidden.requires_grad_()
    loss = PaddedLoss()
    loss(hidden, head, targets)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loss(hidden, head, targets).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")
