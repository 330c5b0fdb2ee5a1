from __future__ import annotations

import itertools
import json
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError
from source_order import STEP, calls_of_a_step

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


def test_the_last_step_leaves_its_record_and_its_picture(context, tmp_path):
    loop = UnequalMicroBatches(context[0])

    steps = list(itertools.islice(loop.steps(), 3))

    record = json.loads((tmp_path / "chapter02.json").read_text())
    assert [line["wrong_gradient_error"] for line in record["steps"]] == [
        s.values["wrong_gradient_error"] for s in steps
    ]
    assert record["targets_of_each_micro_batch"] == [2, 55, 203]
    assert context[1] == [("chapter02.json", "json"), ("chapter02.svg", "figure")]
    assert (tmp_path / "chapter02.svg").read_text().startswith("<svg")


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
