"""The block mask from segment starts equals the mask it stands for; the forward pass equals plain attention."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

from lab_flex.attention import FlexDocuments
from lab_flex.block_mask import BLOCK, block_mask

# A CPU has no fused kernel; the plain form is what is compared here.
pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")

MIXES = [
    [1], [128], [129], [127, 1], [300], [5, 17, 1, 64, 33], [128, 128, 128], [130, 126, 384, 1, 255],
    [1] * 150, [700, 3, 3, 500],
]  # fmt: skip


def named(lengths: list[int]) -> str:
    return "-".join(map(str, lengths[:5])) + (f"-and-{len(lengths) - 5}-more" if len(lengths) > 5 else "")


def starts(lengths: list[int]) -> torch.Tensor:
    return torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)


def allowed(lengths: list[int]) -> torch.Tensor:
    segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return (segment[:, None] == segment[None, :]).tril()


def drawn(tokens: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(8)
    return [torch.randn(tokens, 2, 16, generator=generator).to(dtype) for _ in range(3)]


def blocks_of(lengths: list[int]) -> list[list[str]]:
    """Each block of the full mask as "", "partial" or "full", where rows and columns beyond the end do not count."""
    mask = allowed(lengths)
    pieces = [list(rows.split(BLOCK, 1)) for rows in mask.split(BLOCK, 0)]
    return [["full" if p.all() else "partial" if p.any() else "" for p in row] for row in pieces]


def listed(counts: torch.Tensor, indices: torch.Tensor, row: int) -> list[int]:
    return indices[0, 0, row, : counts[0, 0, row]].tolist()


@pytest.mark.parametrize("lengths", MIXES, ids=named)
def test_each_block_is_listed_as_what_the_mask_makes_it(lengths: list[int]) -> None:
    built = block_mask(starts(lengths), sum(lengths))

    for row, expected in enumerate(blocks_of(lengths)):
        partial = listed(built.kv_num_blocks, built.kv_indices, row)
        full = listed(built.full_kv_num_blocks, built.full_kv_indices, row)
        visible = [column for column, kind in enumerate(expected) if kind]
        assert sorted(partial + full) == visible
        # A partial block that happens to be full costs time, not correctness; a full one must be full.
        assert all(expected[column] == "full" for column in full)
        assert {c for c in visible if expected[c] == "full"} - set(full) <= {row}


@pytest.mark.parametrize("lengths", MIXES, ids=named)
def test_the_mask_function_is_the_causal_mask_within_segments(lengths: list[int]) -> None:
    tokens = sum(lengths)
    built = block_mask(starts(lengths), tokens)
    places = torch.arange(tokens)
    zero = torch.tensor(0)

    mask = built.mask_mod(zero, zero, places[:, None], places[None, :])

    assert torch.equal(mask, allowed(lengths))


@pytest.mark.parametrize("lengths", MIXES, ids=named)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)])
def test_the_forward_pass_equals_plain_attention(lengths: list[int], dtype: torch.dtype, tolerance: float) -> None:
    q, k, v = drawn(sum(lengths), dtype)
    attention = FlexDocuments()

    out = attention(q, k, v, attention.plan(starts(lengths), max(lengths)))

    scores = torch.einsum("qhd,khd->hqk", q.double(), k.double()) / 4
    weights = scores.masked_fill(~allowed(lengths), float("-inf")).softmax(-1)
    expected = torch.einsum("hqk,khd->qhd", weights, v.double())
    assert (out - expected).norm() / expected.norm() < tolerance


def test_torchs_own_way_over_the_whole_mask_gives_the_same_bits() -> None:
    lengths = [130, 126, 384, 1, 255]
    q, k, v = (tensor.transpose(0, 1)[None] for tensor in drawn(sum(lengths), torch.float32))
    built = block_mask(starts(lengths), sum(lengths))

    slow = create_block_mask(built.mask_mod, None, None, sum(lengths), sum(lengths), device="cpu")

    assert torch.equal(flex_attention(q, k, v, block_mask=built), flex_attention(q, k, v, block_mask=slow))


def test_repeated_last_starts_change_nothing() -> None:
    padded = torch.cat([starts([200, 56]), torch.tensor([256, 256], dtype=torch.int32)])

    assert torch.equal(block_mask(padded, 256).to_dense(), block_mask(starts([200, 56]), 256).to_dense())


def test_a_long_micro_batch_needs_no_mask_of_all_pairs() -> None:
    built = block_mask(starts([4096] * 35), 143_360)

    largest = max(tensor.numel() for tensor in built.as_tuple() if isinstance(tensor, torch.Tensor))
    assert largest <= (143_360 // BLOCK) ** 2


def test_fifty_document_mixes_share_one_graph() -> None:
    attention = FlexDocuments()
    q, k, v = drawn(512, torch.float32)
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(lambda q, k, v, plan: attention(q, k, v, plan), backend=counter, dynamic=False)
    generator = torch.Generator().manual_seed(3)

    for _ in range(50):
        cuts = torch.randperm(511, generator=generator)[: int(torch.randint(1, 60, (), generator=generator))] + 1
        cu_seqlens = torch.cat([torch.tensor([0]), cuts.sort().values, torch.tensor([512])]).int()
        compiled(q, k, v, attention.plan(cu_seqlens, 512))

    assert counter.frame_count == 1


def test_on_a_cpu_preflight_refuses_to_train_and_on_a_gpu_it_does_not() -> None:
    reason = FlexDocuments().preflight(torch.device("cpu"))

    assert reason is not None
    assert "no backward pass on the device 'cpu'" in reason
    assert FlexDocuments().preflight(torch.device("cuda")) is None
