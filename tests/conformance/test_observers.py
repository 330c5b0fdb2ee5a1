"""Every observer that is installed only watches, and the check fails for observers that do more."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from lab.conformance import ContractBroken
from lab.contracts import Observer
from lab.experiment import PartChoice
from lab.plugins import Plugins

PLUGINS = Plugins()
OPTIONS = {"profiler": {"steps": [2]}, "memory-snapshot": {"step": 2}}


@pytest.mark.parametrize("name", PLUGINS.parts("observer"))
def test_an_observer_on_the_cpu(check_observer, tmp_path, name):
    check_observer(lambda: PLUGINS.build("observer", PartChoice(name=name, **OPTIONS.get(name, {}))), tmp_path)


@pytest.mark.gpu
@pytest.mark.parametrize("name", PLUGINS.parts("observer"))
def test_an_observer_on_the_gpu(check_observer, tmp_path, name):
    choice = PartChoice(name=name, **OPTIONS.get(name, {}))

    check_observer(lambda: PLUGINS.build("observer", choice), tmp_path, device="cuda")


class Right(Observer):
    """Hears everything and adds one artifact."""

    observed_steps = frozenset({2})

    def __init__(self):
        self._lines = []

    def run_started(self, context):
        self._context = context

    def step_finished(self, step, line):
        self._lines.append(f"{step} {line['loss']}")

    def run_finished(self, step):
        path = self._context.folder / "heard.txt"
        path.write_text("\n".join(self._lines))
        self._context.add_artifact(path, "file", "What was heard")


class IsNoObserver:
    observed_steps = frozenset()


class MisspeltEvent(Right):
    def step_finish(self, step, line):
        pass


class Raises(Right):
    def phase_ended(self, step, phase):
        raise KeyError(phase)


class Answers(Right):
    def step_started(self, step):
        return "skip"


class ChangesTheLine(Right):
    def step_finished(self, step, line):
        line["loss"] = 0.0


class DrawsFromTorch(Right):
    def step_started(self, step):
        torch.rand(1)


class DrawsFromNumpy(Right):
    def step_started(self, step):
        np.random.rand()


class DrawsFromPython(Right):
    def step_started(self, step):
        random.random()


class SwitchesGradientsOff(Right):
    def run_started(self, context):
        super().run_started(context)
        torch.set_grad_enabled(False)


class LeavesAFile(Right):
    def run_finished(self, step):
        super().run_finished(step)
        (self._context.folder / "stray.bin").write_bytes(b"x")


class PromisesAFile(Right):
    def run_finished(self, step):
        self._context.add_artifact(self._context.folder / "nothing.svg", "figure", "Nothing")


class AddsAnUnknownKind(Right):
    def run_finished(self, step):
        path = self._context.folder / "heard.txt"
        path.write_text("x")
        self._context.add_artifact(path, "picture", "x")


class ObservesByIndex(Right):
    observed_steps = (0,)


@pytest.fixture(autouse=True)
def _gradients_stay_on():
    yield
    torch.set_grad_enabled(True)


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (IsNoObserver, "is no lab.contracts.Observer"),
        (MisspeltEvent, "step_finish: a public method that is no event"),
        (Raises, "phase_ended raises KeyError: 'forward'"),
        (Answers, "step_started returns 'skip'"),
        (ChangesTheLine, "step_finished raises TypeError"),
        (DrawsFromTorch, "step_started changes torch's random state"),
        (DrawsFromNumpy, "step_started changes numpy's random state"),
        (DrawsFromPython, "step_started changes Python's random state"),
        (SwitchesGradientsOff, "run_started changes whether gradients are on"),
        (LeavesAFile, "wrote stray.bin without adding it"),
        (PromisesAFile, "there is no such file"),
        (AddsAnUnknownKind, "'picture' is none of figure"),
        (ObservesByIndex, "observed_steps must be a frozenset of steps from 1"),
    ],
)
def test_an_observer_that_breaks_its_contract_is_found(check_observer, tmp_path, broken, why):
    with pytest.raises(ContractBroken, match=why):
        check_observer(broken, tmp_path)


def test_the_broken_observers_are_right_but_for_what_they_break(check_observer, tmp_path):
    check_observer(Right, tmp_path)
