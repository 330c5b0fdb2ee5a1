"""Every loop that is installed keeps its contract, and the check fails for loops that do not."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import torch

from lab.conformance import ContractBroken
from lab.conformance.context import Heard, listening_context
from lab.contracts import Evaluation, LoopContext, Step
from lab.data.prepare import prepare
from lab.experiment import load
from lab.plugins import Plugins

PLUGINS = Plugins()
ELSEWHERE = {"chapter01"}  # needs a model on disk: tests/plugins/test_lab_chapter01.py checks it
SMALL = [
    "data.context=32",
    "data.train_tokens=4000",
    "data.validation_tokens=400",
    "model.layers=2",
    "model.width=8",
    "model.heads=2",
    "batch.tokens=96",
    "evaluate.tokens=64",
    "evaluate.batches=1",
    "train.precision=fp32",
]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


def context_of(project, store, folder, name, *overrides):
    loaded = load(name, project / "experiments", overrides)
    experiment = PLUGINS.check(loaded.experiment)
    tokens = None
    if experiment.data:
        tokens = prepare(experiment.data, PLUGINS.build("source", experiment.data.source), store).folder
    return LoopContext(
        experiment=experiment,
        options=PLUGINS.options("loop", experiment.loop),
        device=torch.device("cpu"),
        attention=PLUGINS.build("attention", experiment.attention) if experiment.attention else None,
        loss=PLUGINS.build("loss", experiment.loss) if experiment.loss else None,
        tokens=tokens,
        folder=folder,
        phase=lambda name: contextlib.nullcontext(),
        add_artifact=lambda path, kind, title: None,
        note=lambda key, value: None,
    )


CASES = {
    "pretrain": ("smoke", SMALL),
    "pretrain in static packs, ahead of time": (
        "smoke",
        [*SMALL, "batch.packs=3", "batch.static=true", "train.prefetch=true"],
    ),
    "chapter02": ("chapter02", []),
}


def test_every_installed_loop_is_checked():
    assert set(PLUGINS.parts("loop")) == {case.partition(" ")[0] for case in CASES} | ELSEWHERE


@pytest.mark.parametrize("case", CASES)
def test_a_loop_on_the_cpu(check_loop, project, store, tmp_path, case):
    name, overrides = CASES[case]
    context = context_of(project, store, tmp_path, name, *overrides)

    check_loop(PLUGINS.resolve("loop", context.experiment.loop.name), lambda: context, steps=3)


class Right:
    """Fits three numbers to noise: small, and right but for what a subclass breaks."""

    def __init__(self, context):
        self.context = context
        self.w = torch.randn(3)
        self.step = 0

    def steps(self):
        while True:
            with self.context.phase("forward"):
                noise = torch.randn(3)
                error = (self.w - noise).square().sum()
            self.w = self.w - 0.1 * (self.w - noise)
            self.step += 1
            yield self.made(error)

    def made(self, error):
        return Step(loss=error, targets=3, gradient_norm=error.sqrt(), fed=f"{self.step:064x}")

    def evaluate(self):
        return Evaluation(loss=float(self.w.sum()), targets=3, tokens=3, batches=1)

    def state_dict(self):
        return {"w": self.w, "step": self.step}

    def load_state_dict(self, state):
        self.w, self.step = state["w"], state["step"]

    def weights(self):
        return self.w.numpy().tobytes().hex()


class DiffersEachTime(Right):
    builds = 0

    def __init__(self, context):
        super().__init__(context)
        DiffersEachTime.builds += 1
        self.w += DiffersEachTime.builds


class ForgetsItsWeights(Right):
    def state_dict(self):
        return {"w": torch.zeros(3), "step": self.step}


class ForgetsItsStep(Right):
    def load_state_dict(self, state):
        self.w = state["w"]


class SavesMoreThanPlainValues(Right):
    def state_dict(self):
        return {**super().state_dict(), "loop": Right}


class EvaluatesWithTheRunsRandomNumbers(Right):
    def evaluate(self):
        torch.randn(1)
        return super().evaluate()


class EvaluatesDifferently(Right):
    def evaluate(self):
        return Evaluation(loss=float(torch.randn(1)), targets=3, tokens=3, batches=1)


class TrainsWhileEvaluating(Right):
    def evaluate(self):
        self.w = self.w * 1.01
        return Evaluation(loss=1.0, targets=3, tokens=3, batches=1)


class ReusesItsTensors(Right):
    def __init__(self, context):
        super().__init__(context)
        self.loss = torch.zeros(())

    def made(self, error):
        self.loss.copy_(error)
        return Step(loss=self.loss, targets=3, fed=f"{self.step:064x}")


class KeepsTheGraph(Right):
    def made(self, error):
        return Step(loss=error * torch.ones((), requires_grad=True), targets=3)


class GivesPlainNumbers(Right):
    def made(self, error):
        return Step(loss=float(error), targets=3)


class CountsNothing(Right):
    def made(self, error):
        return Step(loss=error, targets=0)


class DoesNotRoll(Right):
    def made(self, error):
        return Step(loss=error, targets=3, fed="0" * 64)


class YieldsInsideAPhase(Right):
    def steps(self):
        for step in super().steps():
            with self.context.phase("optimizer"):
                yield step


class NamesNoPhase(Right):
    def steps(self):
        while True:
            self.step += 1
            yield self.made(self.w.square().sum())


class EndsEarly(Right):
    def steps(self):
        steps = super().steps()
        yield next(steps)


class CannotBeClosed(Right):
    def steps(self):
        return iter(list(itertools.islice(super().steps(), 9)))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (DiffersEachTime, "two runs of one experiment differ"),
        (ForgetsItsWeights, "after loading, step 3 differs"),
        (ForgetsItsStep, "after loading, step 3 differs"),
        (SavesMoreThanPlainValues, "cannot be loaded with weights_only=True"),
        (EvaluatesWithTheRunsRandomNumbers, "evaluating between two steps changes the steps that follow"),
        (EvaluatesDifferently, "evaluating twice in a row differs"),
        (TrainsWhileEvaluating, "evaluating changes the weights"),
        (ReusesItsTensors, "give it tensors of its own"),
        (KeepsTheGraph, "holds the graph of its computation"),
        (GivesPlainNumbers, "must be an FP32 scalar tensor"),
        (CountsNothing, "a step counted 0 targets"),
        (DoesNotRoll, "does not roll"),
        (YieldsInsideAPhase, "the phase optimizer is open at a yield"),
        (NamesNoPhase, "names no phase"),
        (EndsEarly, "the loop gives 1 steps where 4 were wanted"),
        (CannotBeClosed, "cannot be closed"),
    ],
)
def test_a_loop_that_breaks_its_contract_is_found(check_loop, tmp_path, broken, why):
    with pytest.raises(ContractBroken, match=why):
        check_loop(broken, lambda: listening_context(tmp_path, Heard()))


def test_the_broken_loops_are_right_but_for_what_they_break(check_loop, tmp_path):
    check_loop(Right, lambda: listening_context(tmp_path, Heard()))
