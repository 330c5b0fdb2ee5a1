from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from source_order import STEP, calls_of_a_step
from torch.nn.functional import cross_entropy

from lab.contracts import LoopContext
from lab.experiment import load
from lab_chapter02.loop import UnequalMicroBatches, pairs
from lab_chapter02.options import Options

EXPERIMENTS = Path(__file__).parents[2] / "experiments"


@pytest.fixture
def context(tmp_path):
    artifacts = []
    built = LoopContext(
        experiment=load("chapter02", EXPERIMENTS, ["train.steps=3"]).experiment,
        options=Options(),
        device=torch.device("cpu"),
        attention=None,
        loss=None,
        tokens=None,
        folder=tmp_path,
        phase=lambda name: nullcontext(),
        add_artifact=lambda path, kind, title: artifacts.append((path.name, kind)),
        note=lambda key, value: None,
    )
    return built, artifacts


def test_the_sum_gives_the_gradient_of_the_whole_batch_and_the_mean_of_means_does_not(context):
    loop = UnequalMicroBatches(context[0])

    values = next(loop.steps()).values

    assert values["right_gradient_error"] < 1e-6
    assert values["wrong_gradient_error"] > 0.1


def test_equal_micro_batches_make_both_ways_agree(context):
    options = Options(micro_batches=(("abcd",), ("wxyz",)))
    loop = UnequalMicroBatches(LoopContext(**{**vars(context[0]), "options": options}))

    values = next(loop.steps()).values

    assert values["wrong_gradient_error"] < 1e-6


def test_no_pair_joins_two_texts():
    inputs, targets = pairs(("ab", "c", "de"), torch.device("cpu"))

    assert bytes(inputs.tolist()) == b"ad"
    assert bytes(targets.tolist()) == b"be"


def pulled(loop, steps=3):
    """Pull steps and close the generator, as the worker does."""
    generator = loop.steps()
    taken = list(itertools.islice(generator, steps))
    before = list(loop.context.folder.glob("chapter02*"))
    generator.close()
    return taken, before


def test_closing_the_generator_leaves_the_record_and_the_picture_and_no_step_does(context, tmp_path):
    steps, before = pulled(UnequalMicroBatches(context[0]))

    record = json.loads((tmp_path / "chapter02.json").read_text())
    assert before == []
    assert [line["wrong_gradient_error"] for line in record["steps"]] == [
        s.values["wrong_gradient_error"] for s in steps
    ]
    assert record["targets_of_each_micro_batch"] == [2, 55, 203]
    assert context[1] == [("chapter02.svg", "figure"), ("chapter02.json", "json")]
    assert (tmp_path / "chapter02.svg").read_text().startswith("<svg")


def test_a_loop_that_made_no_step_leaves_nothing(context, tmp_path):
    loop = UnequalMicroBatches(context[0])
    loop.mean_of_means = None

    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        next(loop.steps())

    assert list(tmp_path.iterdir()) == []


def test_figures_that_are_no_numbers_are_null_in_the_record_and_left_out_of_the_picture(context, tmp_path):
    options = Options(learning_rate=1e30)

    pulled(UnequalMicroBatches(LoopContext(**{**vars(context[0]), "options": options})))

    text = (tmp_path / "chapter02.json").read_text()
    lines = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))["steps"]
    assert lines[0]["loss"] is not None
    assert lines[-1]["loss"] is None
    assert "NaN" not in (tmp_path / "chapter02.svg").read_text()


def test_every_gradient_is_computed_from_the_same_weights_and_only_the_right_one_is_applied(context):
    loop = UnequalMicroBatches(context[0])
    twin = UnequalMicroBatches(context[0])
    twin.mean_of_means = lambda: (0.0, torch.ones_like(twin.gradient_of_the_whole_batch()))

    steps, _ = pulled(loop)
    others, _ = pulled(twin)

    assert [float(step.loss) for step in steps] == [float(step.loss) for step in others]
    assert loop.weights() == twin.weights()


def test_the_gradients_are_those_of_plain_double_precision_sums(context):
    """By the definition: each target's gradient of its own, added up."""
    loop = UnequalMicroBatches(context[0])
    parameters = list(loop.model.parameters())
    batches = []
    for inputs, targets in loop.micro_batches:
        logs = torch.log_softmax(loop.model(inputs), -1)
        each = [
            torch.autograd.grad(-logs[t, target], parameters, retain_graph=True) for t, target in enumerate(targets)
        ]
        batches.append([torch.cat([part.reshape(-1) for part in one]).double() for one in each])
    whole = torch.stack([one for batch in batches for one in batch]).mean(0)
    means = torch.stack([torch.stack(batch).mean(0) for batch in batches]).mean(0)

    values = next(loop.steps()).values

    assert values["wrong_gradient_error"] == pytest.approx(float((means - whole).norm() / whole.norm()), rel=1e-4)
    cosine = float(torch.cosine_similarity(means, whole, dim=0))
    assert values["wrong_gradient_cosine"] == pytest.approx(cosine, rel=1e-4)


def test_the_loss_is_the_mean_over_all_targets_and_the_mean_of_means_stands_beside_it(context):
    loop = UnequalMicroBatches(context[0])
    with torch.no_grad():
        sums = [
            cross_entropy(loop.model(inputs), targets, reduction="sum").item() for inputs, targets in loop.micro_batches
        ]
    counts = [2, 55, 203]

    step = next(loop.steps())

    assert float(step.loss) == pytest.approx(sum(sums) / 260)
    assert step.values["wrong_loss"] == pytest.approx(sum(s / n for s, n in zip(sums, counts, strict=True)) / 3)
    assert (step.targets, step.micro_batches) == (260, 3)
    assert loop.history[0]["loss"] == pytest.approx(sum(sums) / 260)


def test_clipping_sees_the_divided_gradient_and_shortens_it_to_its_limit(context):
    loop = UnequalMicroBatches(LoopContext(**{**vars(context[0]), "options": Options(clip=0.01)}))
    whole = float(loop.gradient_of_the_whole_batch().norm())

    step = next(loop.steps())

    applied = torch.cat([parameter.grad.reshape(-1) for parameter in loop.model.parameters()])
    assert float(step.gradient_norm) == pytest.approx(whole, rel=1e-4)
    assert float(applied.norm()) == pytest.approx(0.01, rel=1e-3)


def test_a_restored_loop_goes_on_with_the_same_bits(context):
    straight = UnequalMicroBatches(context[0])
    first = next(straight.steps())
    saved = torch.load(_saved(straight, context[0].folder), weights_only=True)
    expected = next(straight.steps())

    restored = UnequalMicroBatches(context[0])
    restored.load_state_dict(saved)
    step = next(restored.steps())

    assert torch.equal(step.loss, expected.loss)
    assert not torch.equal(step.loss, first.loss)
    assert restored.weights() == straight.weights()


def test_the_step_reads_in_the_order_in_which_it_is_computed():
    calls = calls_of_a_step(UnequalMicroBatches.steps)

    assert calls == list(STEP)


def test_a_micro_batch_without_a_target_is_refused():
    with pytest.raises(ValidationError, match="micro-batch 2 has no text of two bytes"):
        Options(micro_batches=(("ab",), ("c",)))


def _saved(loop, folder: Path) -> Path:
    path = folder / "state.pt"
    torch.save(loop.state_dict(), path)
    return path
