"""The real call of torch's variable-length attention, on a CPU through reference kernels, and the choice of kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from lab.errors import LabError
from lab_flash_varlen import self_test
from lab_flash_varlen.attention import FlashVarlen
from lab_flash_varlen.options import FlashVarlenOptions
from lab_flash_varlen.pairing import Machine, choose

CPU = torch.device("cpu")


def hopper(modules: tuple[str, ...] = (), versions: dict[str, str] | None = None) -> Machine:
    """A machine with one H100, torch 2.14 and these modules."""
    return Machine("cuda", (9, 0), (2, 14), modules.__contains__, (versions or {}).__getitem__)


def reference() -> FlashVarlen:
    return FlashVarlen(FlashVarlenOptions(provider="reference"))


def starts(*lengths: int) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)


def drawn(tokens: int, heads: int = 2, width: int = 16, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(tokens, heads, width, generator=generator, dtype=dtype).requires_grad_() for _ in range(3)]


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    """One masked softmax over all tokens: another way to the same numbers than the reference kernels take."""
    segment = torch.searchsorted(cu_seqlens, torch.arange(len(q)), right=True)
    allowed = (segment[:, None] == segment[None, :]).tril()
    scores = torch.einsum("qhd,khd->hqk", q, k) * q.shape[-1] ** -0.5
    return torch.einsum("hqk,khd->qhd", scores.masked_fill(~allowed, float("-inf")).softmax(-1), v)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.bfloat16, 2e-2)]
)
def test_values_and_gradients_equal_masked_attention(dtype: torch.dtype, tolerance: float) -> None:
    attention, cu_seqlens = reference(), starts(5, 17, 1, 64, 33)
    q, k, v = drawn(120, dtype=dtype)
    grad = torch.randn(q.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))

    got = attention(q, k, v, attention.plan(cu_seqlens, 64))
    gradients = torch.autograd.grad(got, (q, k, v), grad.to(dtype))
    exact = [tensor.detach().double().requires_grad_() for tensor in (q, k, v)]
    wanted = plain(*exact, cu_seqlens)
    expected = torch.autograd.grad(wanted, exact, grad)

    assert got.dtype == dtype
    for one, other in zip((got, *gradients), (wanted, *expected), strict=True):
        assert (one.double() - other).norm() / other.norm() < tolerance


def test_the_call_compiles_without_a_break_and_gives_the_same_numbers() -> None:
    attention, cu_seqlens = reference(), starts(9, 30, 25)
    q, k, v = drawn(64, dtype=torch.float32)
    plan = attention.plan(cu_seqlens, 30)
    torch._dynamo.reset()

    # aot_eager traces forward and backward as inductor does, and needs no C++ compiler.
    compiled = torch.compile(lambda q, k, v, plan: attention(q * 1.0, k, v, plan), fullgraph=True, backend="aot_eager")
    got = torch.autograd.grad(compiled(q, k, v, plan).square().sum(), (q, k, v))
    expected = torch.autograd.grad(attention(q, k, v, plan).square().sum(), (q, k, v))

    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_fifty_document_mixes_share_one_graph() -> None:
    attention = reference()
    q, k, v = (tensor.detach() for tensor in drawn(512, dtype=torch.float32))
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda q, k, v, plan: attention(q, k, v, plan), backend=counter, dynamic=False)
    generator = torch.Generator().manual_seed(3)

    for _ in range(50):
        cuts = torch.randperm(511, generator=generator)[: int(torch.randint(8, 60, (), generator=generator))] + 1
        cu_seqlens = torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([512])]).int()
        compiled(q, k, v, attention.plan(cu_seqlens, 512))

    assert counter.frame_count == 1


def test_a_plan_repeats_the_last_start_and_grows_when_a_batch_has_more_segments() -> None:
    attention = reference()

    few, many = attention.plan(starts(3, 4), 4), attention.plan(starts(*[1] * 100), 1)
    again = attention.plan(starts(3, 4), 4)

    assert few.cu_seqlens.tolist() == [0, 3, *[7] * 63]
    assert len(many.cu_seqlens) == len(again.cu_seqlens) == 129
    assert few.cu_seqlens.dtype == torch.int32


def test_an_option_sets_the_room_for_segments() -> None:
    attention = FlashVarlen(FlashVarlenOptions(provider="reference", segments=300))

    assert len(attention.plan(starts(3, 4), 4).cu_seqlens) == 301


def test_changing_one_segment_leaves_the_others_alone() -> None:
    attention = reference()
    plan = attention.plan(starts(6, 10), 10)
    q, k, v = (tensor.detach() for tensor in drawn(16))
    before = attention(q, k, v, plan)

    for tensor in (q, k, v):
        tensor[:6] += 1
    after = attention(q, k, v, plan)

    assert not torch.equal(before[:6], after[:6])
    assert torch.equal(before[6:], after[6:])


def test_auto_takes_fa3_then_fa4_then_torch() -> None:
    versions = {"flash-attn-4": "4.0.0b36"}

    assert choose("auto", hopper(("flash_attn_interface", "flash_attn.cute"), versions)) == "fa3"
    assert choose("auto", hopper(("flash_attn.cute",), versions)) == "fa4"
    assert choose("auto", hopper()) == "torch"


def test_auto_passes_over_kernels_that_the_gpu_cannot_run() -> None:
    ampere = replace(hopper(("flash_attn_interface", "flash_attn.cute")), capability=(8, 0))

    assert choose("auto", ampere) == "torch"


@pytest.mark.parametrize(
    ("beta", "torch_version", "fits"),
    [("4.0.0b4", (2, 14), False), ("4.0.0b16", (2, 11), True), ("4.0.0b16", (2, 13), True),
     ("4.0.0b22", (2, 13), False), ("4.0.0b36", (2, 13), False), ("4.0.0b36", (2, 14), True), ("4.0.0", (2, 14), True)],
)  # fmt: skip
def test_fa4_and_torch_must_fit_together(beta: str, torch_version: tuple[int, int], fits: bool) -> None:
    machine = replace(hopper(("flash_attn.cute",), {"flash-attn-4": beta}), torch_version=torch_version)

    assert (choose("auto", machine) == "fa4") == fits


@pytest.mark.parametrize(
    ("provider", "help"),
    [("fa3", "hopper/"), ("fa4", "pip install flash-attn-4"), ("flash-attn", "llm-training-lab[flash-attn]")],
)
def test_a_provider_that_is_not_installed_says_how_to_install_it(provider: str, help: str) -> None:
    with pytest.raises(LabError, match="not installed") as caught:
        choose(provider, hopper())

    assert help in caught.value.do


def test_an_old_torch_or_gpu_is_refused() -> None:
    with pytest.raises(LabError, match=r"torch 2\.11 or newer, not 2\.10"):
        choose("auto", replace(hopper(), torch_version=(2, 10)))
    with pytest.raises(LabError, match=r"compute capability 8\.0"):
        choose("auto", replace(hopper(), capability=(7, 5)))


def test_without_a_gpu_preflight_says_what_to_do() -> None:
    reason = FlashVarlen().preflight(CPU)

    assert reason is not None
    assert "no kernels for the device 'cpu'" in reason
    assert '"sdpa"' in reason


def test_the_kernel_in_use_is_told_from_the_start() -> None:
    assert reference().kernel == f"reference kernels on CPU through torch {torch.__version__}"


def test_where_no_kernel_fits_that_is_what_is_told() -> None:
    assert FlashVarlen().kernel == "none: FlashAttention has no kernels for the device 'cpu'."


def test_real_kernels_refuse_fp32_instead_of_computing_garbage() -> None:
    attention = reference()
    plan = attention.plan(starts(4), 4)
    attention._provider = replace(attention._provider, name="torch")
    q, k, v = drawn(4, dtype=torch.float32)

    with pytest.raises(LabError, match=r"computes in BF16, but the queries are torch\.float32"):
        attention(q, k, v, plan)


def test_the_self_test_passes_exact_kernels() -> None:
    errors = self_test.figures(reference().start(CPU).attend, CPU)

    assert self_test.verdict(errors) is None
    assert set(errors) == {"output", "dq", "dk", "dv", self_test.LEAK}


def test_the_self_test_names_the_figures_of_kernels_that_attend_across_segments() -> None:
    def across(q, k, v, cu_seqlens, max_seqlen):
        return plain(q.float(), k.float(), v.float(), torch.tensor([0, len(q)])).bfloat16()

    verdict = self_test.verdict(self_test.figures(across, CPU))

    assert verdict is not None
    assert "output" in verdict
    assert self_test.LEAK in verdict


def test_the_self_test_fails_on_nan() -> None:
    assert self_test.verdict({"output": float("nan"), self_test.LEAK: 0.0}) == "output nan"


def test_a_provider_that_fails_its_self_test_does_not_train(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "TOLERANCE", 0.0)

    reason = reference().preflight(CPU)

    assert reason is not None
    assert "fails its own test: output" in reason


@pytest.mark.gpu
def test_every_provider_that_fits_this_gpu_passes_its_self_test() -> None:
    for provider in ("auto", "torch"):
        assert FlashVarlen(FlashVarlenOptions(provider=provider)).preflight(torch.device("cuda")) is None
