"""The pretrain loop: one mean a step over all its targets, fixed evaluations, and the same bits from any checkpoint."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from fakes import ByteTokenizer, ListSource
from tiny_run import Heard, tiny_context, tiny_experiment, tiny_tokens

from lab.data.cache import TokenCache, read_manifest, write_manifest
from lab.data.documents import document_id, split_of
from lab.data.prepare import prepare
from lab.errors import LabError, UsageError
from lab_pretrain.loop import PretrainLoop
from lab_pretrain.options import Sections
from lab_torch.cross_entropy import CrossEntropy


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return tiny_tokens(tmp_path_factory.mktemp("store"))


def loop(tokens, **changes):
    parts = {key: changes.pop(key) for key in ("attention", "loss", "heard") if key in changes}
    return PretrainLoop(tiny_context(tokens, tiny_experiment(**changes), **parts))


def pull(loop, steps=1):
    return list(itertools.islice(loop.steps(), steps))


def weights(loop):
    return [parameter.detach().clone() for parameter in loop.model.parameters()]


class Scripted:
    """A loss with known sums, each with the gradient of its sum in every hidden value."""

    def __init__(self, *sums, dtype=torch.float32):
        self.sums, self.dtype = itertools.cycle(sums), dtype

    def __call__(self, hidden, head, targets):
        return (torch.tensor(next(self.sums)) + 0.0 * hidden.sum() + 0.0 * head.sum()).to(self.dtype)


class Ignoring:
    """A feed in which the chosen micro-batches of each step, counted from 0, have no target."""

    def __init__(self, feed, *chosen):
        self.feed, self.chosen = feed, chosen

    def next(self):
        fed = self.feed.next()
        return replace(fed, batches=tuple(map(self._ignored, range(len(fed.batches)), fed.batches)))

    def _ignored(self, number, batch):
        if number not in self.chosen:
            return batch
        return replace(batch, targets=torch.full_like(batch.targets, -100), counted=0)


class First:
    """A feed of only the first micro-batches of each step."""

    def __init__(self, feed, count):
        self.feed, self.count = feed, count

    def next(self):
        fed = self.feed.next()
        return replace(fed, batches=fed.batches[: self.count])


def documents_of(tmp_path, split, *lengths, context):
    """A cache whose `split` holds documents of exactly these numbers of tokens, and whose other split holds one."""
    other = "train" if split == "validation" else "validation"
    wanted = [*((split, length) for length in lengths), (other, 9)]
    texts = []
    for name, length in wanted:
        drawn = ("".join(letters) for letters in itertools.product("abcdefgh", repeat=length - 1))
        texts.append(next(text for text in drawn if split_of(document_id(text), 20261003, 0.5) == name))
    tokens = {f"{split}_tokens": sum(lengths), f"{other}_tokens": 9}
    data = {"source": "list", "context": context, "validation_fraction": 0.5, "max_documents": 9, **tokens}
    experiment = tiny_experiment(data=data, evaluate={"every": 1, "batches": 2, "tokens": context})
    return prepare(experiment.data, ListSource(texts), tmp_path, tokenizer=ByteTokenizer()).folder, data


def test_the_reported_loss_is_all_sums_over_all_targets(tmp_path):
    folder, data = documents_of(tmp_path, "train", 10, 2, context=9)
    training = loop(folder, data=data, batch={"tokens": 9, "micro_batches": 2}, loss=Scripted(5.0, 3.0))

    (step,) = pull(training)

    assert [batch.counted for batch in loop(folder, data=data, batch={"packs": 1}).feed.next().batches] == [9]
    assert step.targets == 10
    assert step.loss.item() == pytest.approx(0.8)


def test_the_gradient_of_unequal_micro_batches_is_that_of_one_batch(tmp_path):
    folder, data = documents_of(tmp_path, "train", 10, 2, context=9)
    unequal = loop(folder, data=data, batch={"tokens": 9, "micro_batches": 2})
    whole = loop(folder, data=data, batch={"tokens": 10, "micro_batches": 1})

    split, together = pull(unequal)[0], pull(whole)[0]

    assert (split.micro_batches, together.micro_batches) == (2, 1)
    assert split.loss.item() == pytest.approx(together.loss.item(), rel=1e-6)
    one, other = (torch.cat([each.grad.flatten() for each in trained.parameters]) for trained in (unequal, whole))
    assert (one - other).norm() / other.norm() < 1e-6


class Repeating:
    """A feed of the first micro-batch again and again, each with one target."""

    def __init__(self, feed, count):
        self.feed, self.count = feed, count

    def next(self):
        fed = self.feed.next()
        return replace(fed, batches=(replace(fed.batches[0], counted=1),) * self.count)


class Bare:
    """A model without layers: its hidden states cost nothing."""

    def __init__(self, model):
        self.head = model.head

    def hidden(self, tokens, positions, attention, plan):
        return self.head[: len(tokens)]


def test_losses_in_bf16_add_up_without_losing_any(tokens):
    training = loop(tokens, loss=Scripted(11.0, dtype=torch.bfloat16), batch={"tokens": 32, "micro_batches": 1})
    training.feed, training.model = Repeating(training.feed, 4096), Bare(training.model)

    (step,) = pull(training)

    assert step.targets == 4096
    assert step.loss.item() == 11.0
    assert step.loss.item() * step.targets == 45_056.0


def test_the_learning_rate_and_the_optimizer_go_by_updates_and_not_by_micro_batches(tokens):
    training = loop(tokens, batch={"tokens": 64, "micro_batches": 4, "buffer": 8})

    steps = pull(training, 2)

    assert [step.learning_rate for step in steps] == [1e-2, 1e-2]
    assert [step.micro_batches for step in steps] == [4, 4]
    assert {float(state["step"]) for state in training.optimizer.state.values()} == {2.0}


def test_a_micro_batch_without_targets_changes_nothing(tokens):
    four = {"batch": {"tokens": 64, "micro_batches": 4, "buffer": 8}}
    with_empty, without = loop(tokens, **four), loop(tokens, **four)
    with_empty.feed = Ignoring(with_empty.feed, 3)
    without.feed = First(without.feed, 3)

    pull(with_empty)
    pull(without)

    assert all(torch.equal(one, other) for one, other in zip(weights(with_empty), weights(without), strict=True))


def test_a_step_without_any_target_counts_and_changes_nothing(tokens):
    training = loop(tokens)
    training.feed = Ignoring(training.feed, 0, 1)
    before = weights(training)

    (step,) = pull(training)

    assert (step.targets, training.step) == (0, 1)
    assert math.isnan(step.loss.item())
    assert all(torch.equal(one, other) for one, other in zip(before, weights(training), strict=True))
    assert not training.optimizer.state


class NotANumberAt(CrossEntropy):
    """Injects a NaN gradient at one call."""

    def __init__(self, call):
        super().__init__()
        self.calls, self.call = 0, call

    def __call__(self, hidden, head, targets):
        self.calls += 1
        total = super().__call__(hidden, head, targets)
        if self.calls == self.call:
            hidden.register_hook(lambda gradient: torch.full_like(gradient, math.nan))
        return total


@pytest.mark.parametrize("fused", [False, True])
def test_a_nan_gradient_stops_before_the_update_and_names_the_step(tokens, fused):
    training = loop(tokens, loss=NotANumberAt(9), optimizer={"learning_rate": 1e-2, "fused": fused})
    steps = training.steps()
    for _ in range(4):
        next(steps)
    before = weights(training)

    with pytest.raises(LabError, match="step 5: the gradients' norm is nan"):
        next(steps)

    assert all(torch.equal(one, other) for one, other in zip(before, weights(training), strict=True))


def test_evaluation_is_all_sums_over_all_targets(tmp_path):
    folder, data = documents_of(tmp_path, "validation", 7, 3, context=6)
    evaluate = {"every": 1, "batches": 2, "tokens": 6}

    evaluation = loop(folder, data=data, evaluate=evaluate, loss=Scripted(30.0, 4.0)).evaluate()

    assert (evaluation.loss, evaluation.targets) == (4.25, 8)


def test_every_evaluation_sees_the_same_inputs_and_disturbs_nothing(tokens):
    evaluated, plain = loop(tokens), loop(tokens)

    first = evaluated.evaluate()
    pull(evaluated, 2)
    second = evaluated.evaluate()
    pull(plain, 2)

    assert first.inputs == second.inputs
    assert second.loss < first.loss
    assert first.batches == 2
    assert evaluated.weights() == plain.weights()


@pytest.mark.parametrize(("batches", "told"), [(2, 0), (3, 1)])
def test_an_evaluation_that_is_larger_than_its_split_says_so_once(tmp_path, caplog, batches, told):
    folder, data = documents_of(tmp_path, "validation", 7, 6, context=6)
    training = loop(folder, data=data, evaluate={"every": 1, "batches": batches, "tokens": 6})

    assert [training.evaluate().batches, training.evaluate().batches] == [batches, batches]

    warning = f"an evaluation of {batches} batches of 6 tokens sees validation documents more than once"
    assert caplog.text.count(warning) == told


def test_evaluated_bytes_are_those_that_the_targets_spell(tmp_path):
    folder, data = documents_of(tmp_path, "validation", 7, 3, context=6)

    evaluation = loop(folder, data=data, evaluate={"every": 1, "batches": 2, "tokens": 6}).evaluate()

    assert evaluation.bytes == 5 + 1  # a byte a token, none for either end of text


def test_training_starts_near_a_uniform_guess_and_learns(tokens):
    steps = pull(loop(tokens), 12)

    assert steps[0].loss.item() == pytest.approx(math.log(257), abs=0.05)
    assert steps[-1].loss.item() < steps[0].loss.item() - 1.0


def test_a_step_says_what_it_fed(tokens):
    heard = Heard()

    (step,) = pull(loop(tokens, heard=heard))

    batches = loop(tokens).feed.next().batches
    assert step.tokens == sum(batch.inputs for batch in batches)
    assert step.segments == sum(batch.segments for batch in batches)
    assert step.packs == 2
    shape = 12 * 2 * 16**2 + 257 * 16
    assert step.flops == 6 * shape * step.tokens + 12 * 2 * 16 * sum(batch.squares for batch in batches)
    assert heard.phases == ["batch", "zero_grad", "forward", "backward", "forward", "backward", "optimizer"]


def test_the_record_lists_which_parameters_decay(tokens):
    heard = Heard()
    training = loop(tokens, heard=heard)

    decayed, free = heard.notes["optimizer_groups"]

    names = {name: parameter.ndim for name, parameter in training.model.named_parameters()}
    assert (decayed["weight_decay"], free["weight_decay"]) == (0.1, 0.0)
    assert sorted([*decayed["parameters"], *free["parameters"]]) == sorted(names)
    assert {names[name] for name in free["parameters"]} == {1}
    assert heard.notes["parameters"] == sum(parameter.numel() for parameter in training.parameters)
    assert heard.notes["parameter_types"] == ["torch.float32"]


def test_under_bf16_autocast_parameters_gradients_and_moments_stay_fp32_and_the_record_says_so(tokens):
    heard = Heard()
    training = loop(tokens, heard=heard, train={"steps": 6, "precision": "bf16-autocast"})
    seen = []
    training.model.blocks[0].mlp_in.register_forward_hook(lambda module, given, made: seen.append(made.dtype))

    pull(training)

    moments = [state[name] for state in training.optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    kept = [*training.parameters, *(parameter.grad for parameter in training.parameters), *moments]
    assert set(seen) == {torch.bfloat16}
    assert {tensor.dtype for tensor in kept} == {torch.float32}
    assert heard.notes["parameter_types"] == ["torch.float32"]


def test_a_checkpoint_of_fp32_is_refused_by_a_loop_that_was_built_in_bf16(tokens):
    saved = loop(tokens)
    pull(saved)
    narrow = loop(tokens)
    narrow.model.bfloat16()

    with pytest.raises(LabError, match=r"is torch\.float32 .*, the model's is torch\.bfloat16"):
        narrow.load_state_dict(saved.state_dict())

    assert not narrow.optimizer.state


def test_tokens_that_the_model_does_not_know_are_refused_when_the_loop_is_built(tmp_path):
    folder = tiny_tokens(tmp_path)
    manifest = read_manifest(folder)
    manifest["tokenizer"]["vocabulary"] = 200
    write_manifest(folder, manifest)

    with pytest.raises(LabError, match="holds token 256, but the model knows only 200 tokens"):
        loop(folder)


@pytest.mark.parametrize("prefetch", [False, True])
def test_batches_made_ahead_are_the_same_and_are_not_lost_by_a_checkpoint(tokens, prefetch):
    straight = loop(tokens)
    expected = [step.fed for step in pull(straight, 5)]
    train = {"steps": 6, "precision": "fp32", "prefetch": prefetch}
    first = loop(tokens, train=train)
    fed = [step.fed for step in pull(first, 2)]

    second = loop(tokens, train=train)
    pull(second, 1)
    second.load_state_dict(first.state_dict())
    fed += [step.fed for step in pull(second, 3)]

    assert fed == expected
    assert second.weights() == straight.weights()


@pytest.mark.parametrize("cut", [1, 2, 3, 5, 7])
def test_a_loop_goes_on_from_any_step_with_the_same_bits(tokens, cut):
    """Three passes over this small data set: cuts lie within an epoch, at its end and beyond it."""
    small = {"batch": {"tokens": 512, "micro_batches": 2, "buffer": 8}}
    straight = loop(tokens, **small)
    expected = [(step.loss.item(), step.fed) for step in pull(straight, 9)]
    first = loop(tokens, **small)
    found = [(step.loss.item(), step.fed) for step in pull(first, cut)]

    second = loop(tokens, **small)
    second.load_state_dict(first.state_dict())
    found += [(step.loss.item(), step.fed) for step in pull(second, 9 - cut)]

    batch = second.feed.next().batches[0]
    assert (batch.cu_seqlens.dtype, batch.cu_seqlens.is_contiguous()) == (torch.int32, True)
    assert straight.feed.state_dict()["sampler"]["epoch"] == 2
    assert found == expected
    assert second.weights() == straight.weights()


def test_a_static_shape_adds_rows_that_change_no_number(tokens):
    batch = {"tokens": 2048, "micro_batches": 1, "buffer": 64}
    plain, static = loop(tokens, batch=batch), loop(tokens, batch={**batch, "static": True})

    rows = {len(batch.tokens) for batch in static.feed.next().batches}
    one, other = pull(plain)[0], pull(loop(tokens, batch={**batch, "static": True}))[0]

    assert rows == {2048}
    assert (one.targets, one.tokens, one.segments) == (other.targets, other.tokens, other.segments)
    assert one.loss.item() == pytest.approx(other.loss.item(), rel=1e-6)
    assert plain.feed.state_dict()["sampler"] == static.feed.state_dict()["sampler"]


def test_packs_of_the_context_are_a_batch_too(tokens):
    (step,) = pull(loop(tokens, batch={"packs": 3, "micro_batches": 2, "buffer": 8}))

    assert step.packs == 6
    assert step.tokens <= 6 * 32


def test_a_corrupt_cache_is_named_before_training(tmp_path):
    folder = tiny_tokens(tmp_path)
    content = bytearray((folder / "train.tokens").read_bytes())
    content[40] ^= 1
    (folder / "train.tokens").write_bytes(content)

    with pytest.raises(LabError, match=r"train\.tokens"):
        loop(folder)


def test_an_experiment_that_lacks_a_section_is_named():
    experiment = tiny_experiment(model=None)

    with pytest.raises(UsageError, match="needs data, model"):
        Sections.of(experiment)


def test_every_pair_of_the_cache_is_trained_once_an_epoch(tokens):
    """1>2 and 2>E but never E>1: no target crosses from one document into the next."""
    cache = TokenCache.open(tokens).split("train")
    expected = sorted(
        pair for number in range(len(cache)) for pair in itertools.pairwise(cache.document(number).tolist())
    )
    feed, found = loop(tokens).feed, []
    while True:
        fed = feed.next()
        if fed.sampler["epoch"] > 0:
            break
        found += [
            pair for batch in fed.batches for pair in zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)
        ]

    # The step in which the epoch ends is not counted, so a few of its pairs are missing and none is new.
    remaining = list(expected)
    for pair in found:
        remaining.remove(pair)
    assert len(remaining) < 2 * 64
