"""The decoder: the baseline's size and start, and documents that never see each other."""

from __future__ import annotations

import math

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.nn import functional

from lab.experiment.sections import Model, Train
from lab.training.model import Decoder, build, initialise
from lab_flash_varlen.attention import FlashVarlen
from lab_flash_varlen.options import FlashVarlenOptions
from lab_torch.options import SdpaOptions
from lab_torch.sdpa import SegmentAttention

LENGTHS = [8, 19, 1, 30, 6]
CPU = torch.device("cpu")


def decoder(vocabulary=61, dtype=torch.float64, **changes):
    shape = {"layers": 2, "width": 24, "heads": 3, "context": 32, **changes}
    model = Decoder(vocabulary=vocabulary, **shape)
    initialise(model, 5)
    return model.to(dtype)


def packed(lengths, vocabulary=61, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(vocabulary, (sum(lengths),), generator=generator)
    targets = torch.randint(vocabulary, (sum(lengths),), generator=generator)
    return tokens, targets


def hidden(model, tokens, lengths, attention=None, longest=None):
    attention = attention or SegmentAttention(SdpaOptions(batching="none"))
    positions = torch.cat([torch.arange(length) for length in lengths])
    offsets = torch.tensor([0, *lengths]).cumsum(0).to(torch.int32)
    return model.hidden(tokens, positions, attention, attention.plan(offsets, longest or max(lengths)))


def test_the_model_of_corrected_has_126716160_parameters(project):
    from lab.experiment import load

    corrected = load("corrected", project / "experiments").experiment
    shape = corrected.model
    with torch.device("meta"):
        model = Decoder(shape.layers, shape.width, shape.heads, 50257, corrected.data.context)

    assert sum(parameter.numel() for parameter in model.parameters()) == 126_716_160


def test_one_seed_gives_the_same_weights_and_another_seed_others():
    section, train = Model(layers=1, width=8, heads=2), Train(steps=1)

    first, again, other = (
        build(section, train, vocabulary=11, context=4, seed=seed, device=CPU).state_dict() for seed in (1, 1, 2)
    )

    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["token_embedding.weight"], other["token_embedding.weight"])


def test_matrices_start_normal_and_norms_start_as_the_identity():
    model = decoder(vocabulary=5000, dtype=torch.float32)

    assert model.head.std().item() == pytest.approx(0.02, rel=0.02)
    assert model.head.mean().item() == pytest.approx(0.0, abs=2e-4)
    assert torch.equal(model.final_norm.weight, torch.ones(24))
    assert torch.equal(model.final_norm.bias, torch.zeros(24))


def test_the_global_generator_does_not_move_the_weights():
    torch.manual_seed(1)
    first = decoder()
    torch.manual_seed(2)
    second = decoder()

    assert torch.equal(first.head, second.head)


def test_before_training_every_token_is_about_equally_likely():
    model = decoder(vocabulary=50257, dtype=torch.float32, width=48)
    tokens, targets = packed([32], 50257)

    with torch.no_grad():
        loss = functional.cross_entropy(hidden(model, tokens, [32]) @ model.head.T, targets)

    assert loss.item() == pytest.approx(math.log(50257), abs=0.1)


@pytest.mark.parametrize("batching", ["none", "equal-lengths"])
def test_packed_documents_equal_one_document_at_a_time_in_outputs_and_gradients(batching):
    lengths = [8, 19, 8, 1, 30, 8, 1, 8]
    tokens, targets = packed(lengths)
    together, alone = decoder(), decoder()

    out = hidden(together, tokens, lengths, SegmentAttention(SdpaOptions(batching=batching)))
    functional.cross_entropy(out @ together.head.T, targets, reduction="sum").backward()
    singles = []
    for one, target in zip(tokens.split(lengths), targets.split(lengths), strict=True):
        singles.append(hidden(alone, one, [len(one)]))
        functional.cross_entropy(singles[-1] @ alone.head.T, target, reduction="sum").backward()

    torch.testing.assert_close(out, torch.cat(singles), rtol=0, atol=1e-14)
    for (name, parameter), other in zip(together.named_parameters(), alone.parameters(), strict=True):
        assert torch.allclose(parameter.grad, other.grad, rtol=1e-11, atol=1e-13), name


def test_a_document_is_the_same_bits_whatever_its_neighbour_says():
    model = decoder(dtype=torch.float32)
    tokens, _ = packed([3, 4])
    other = tokens.clone()
    other[:3] = (other[:3] + 7) % 61

    with torch.no_grad():
        before, after = hidden(model, tokens, [3, 4]), hidden(model, other, [3, 4])
        alone = hidden(model, tokens[3:], [4])

    assert not torch.equal(before[:3], after[:3])
    assert torch.equal(before[3:], after[3:])
    torch.testing.assert_close(before[3:], alone, rtol=0, atol=1e-6)


def test_a_changed_token_changes_only_what_follows_it_in_its_document():
    model = decoder()
    tokens, _ = packed(LENGTHS)
    other = tokens.clone()
    other[18] = (other[18] + 1) % 61  # in the second document, which holds 8 to 26

    with torch.no_grad():
        changed = (hidden(model, tokens, LENGTHS) != hidden(model, other, LENGTHS)).any(1).nonzero().flatten()

    assert changed.tolist() == list(range(18, 27))


def test_positions_are_learned_and_matter():
    model = decoder()
    tokens = torch.full((4,), 9)

    with torch.no_grad():
        out = hidden(model, tokens, [4])

    assert not torch.allclose(out[0], out[1])


def test_the_head_is_the_token_embedding():
    model = decoder()

    assert model.head is model.token_embedding.weight
    assert sum("head" in name for name in model.state_dict()) == 0


def test_a_bf16_residual_is_kept_between_the_blocks():
    train = Train(steps=1, residual="bf16")
    model = build(Model(layers=2, width=24, heads=3), train, vocabulary=61, context=32, seed=5, device=CPU)
    seen = []
    model.blocks[1].register_forward_pre_hook(lambda module, args: seen.append(args[0].dtype))
    tokens, _ = packed([8])

    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden(model, tokens, [8])

    assert seen == [torch.bfloat16]


def test_compiled_blocks_give_the_same_numbers_under_the_same_names():
    model, compiled = decoder(), decoder()
    compiled.compile_blocks(backend="eager")
    tokens, _ = packed(LENGTHS)

    with torch.no_grad():  # dynamo warns about gradients of what is no leaf
        out, plain = hidden(compiled, tokens, LENGTHS), hidden(model, tokens, LENGTHS)

    torch.testing.assert_close(out, plain, rtol=0, atol=1e-14)
    assert list(compiled.state_dict()) == list(model.state_dict())


def test_only_batches_of_the_static_shape_run_compiled_and_in_one_graph():
    torch._dynamo.reset()
    compiled, plain, counter = decoder(), decoder(), CompileCounter()
    compiled.compile_blocks(rows=24, backend=counter)
    attention = FlashVarlen(FlashVarlenOptions(provider="reference"))

    with torch.no_grad():
        for lengths in ([8, 16], [9, 15], [3, 3], [24], [20, 20], [5, 19]):
            tokens, _ = packed(lengths)
            torch.testing.assert_close(
                hidden(compiled, tokens, lengths, attention, longest=32), hidden(plain, tokens, lengths)
            )

    assert counter.frame_count == 1
