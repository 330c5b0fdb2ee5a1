"""Does the observer keep its contract, and does it say what the layers did?"""

from __future__ import annotations

import json

import pytest
import torch
from activation_sizes.observer import ActivationSizes
from activation_sizes.options import Options
from torch import nn

from lab.conformance import Heard, listening_context


def test_it_keeps_the_contract(check_observer, tmp_path):
    check_observer(lambda: ActivationSizes(Options(steps=(1, 3))), tmp_path)


@pytest.fixture
def watched(tmp_path):
    """A run of two steps: the first has two micro-batches, and an evaluation follows it."""
    observer = ActivationSizes(Options(steps=(1,)))
    heard = Heard()
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh(), nn.Linear(2, 1, bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.eye(2))
        model[2].weight.copy_(torch.ones(1, 2))
    observer.run_started(listening_context(tmp_path, heard))
    for step, batches in ((1, (3.0, 1.0)), (2, (100.0,))):
        observer.step_started(step)
        for value in batches:
            observer.phase_started(step, "forward")
            model(torch.full((4, 2), value))
            observer.phase_ended(step, "forward")
        model(torch.full((4, 2), 7.0))
        observer.step_finished(step, {"loss": 1.0})
    observer.run_finished(2)
    return heard, tmp_path


def test_micro_batches_are_one_step_and_evaluations_none(watched):
    _, folder = watched

    record = json.loads((folder / "activation-sizes.json").read_text())

    first = ((3.0**2 + 1.0**2) / 2) ** 0.5
    assert record["root_mean_square"].keys() == {"1"}
    assert record["root_mean_square"]["1"][0] == pytest.approx(first)
    assert len(record["root_mean_square"]["1"]) == 2


def test_the_picture_is_added_and_says_what_it_shows(watched):
    heard, folder = watched

    added = [(path.name, kind) for path, kind, _ in heard.artifacts]

    assert ("activation-sizes.svg", "figure") in added
    assert "root mean square of its output" in (folder / "activation-sizes.svg").read_text()


def test_no_hook_is_left_behind(watched):
    assert not nn.modules.module._global_forward_hooks


def test_a_run_without_an_observed_step_leaves_nothing(tmp_path):
    observer = ActivationSizes(Options(steps=(9,)))
    observer.run_started(listening_context(tmp_path, Heard()))

    observer.run_finished(3)

    assert list(tmp_path.iterdir()) == []
