"""The links from `corrected` to `fast` that should not alter numbers do not: twenty steps on a CPU, in FP32 and BF16.

Each link takes its sections from the shipped experiment, over a tiny model and documents. The attention is the real
call of torch's variable-length kernel over its CPU reference. Blocks are compiled by aot_eager, which traces forward
and backward as inductor does and needs no C++ compiler; `make test-long` repeats the chain with inductor itself.
"""

from __future__ import annotations

import functools
import itertools
from pathlib import Path

import pytest
import torch
from tiny_run import tiny_context, tiny_experiment, tiny_tokens

from lab.experiment import load
from lab.training.model import Decoder
from lab_flash_varlen.attention import FlashVarlen
from lab_flash_varlen.options import FlashVarlenOptions
from lab_pretrain.loop import PretrainLoop
from lab_torch.cross_entropy import CrossEntropy
from lab_torch.options import PaddedOptions
from lab_torch.padded import PaddedLoss, score

# Dynamo looks at the gradient of every input it traces.
pytestmark = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
SAME_NUMBERS = ["corrected", "fast-padded", "fast-compiled", "fast-unsynced", "fast-few-chunks"]
"""Link 5 changes the kernel of the attention, which its own test on the device covers; 6 and 7 change numbers."""
STEPS = 20
LIMITS = {"fp32": 1e-5, "bf16-autocast": 2e-3}
"""Relative difference of each step's loss from the link before."""


@pytest.fixture(scope="module")
def tokens(tmp_path_factory):
    return tiny_tokens(tmp_path_factory.mktemp("store"))


def losses(tokens, name, precision, backend):
    """The losses of a link's first steps, with its sections and the tiny model."""
    link = load(name, EXPERIMENTS).experiment
    loss = CrossEntropy() if link.loss.name == "liger" else PaddedLoss(PaddedOptions(**link.loss.options))
    if link.loss.options.get("compile"):
        loss._score = torch.compile(score, backend=backend)
    experiment = tiny_experiment(
        batch={**link.batch.model_dump(), "packs": 8},
        optimizer=link.optimizer.model_dump(),
        train={**link.train.model_dump(), "steps": STEPS, "precision": precision},
    )
    attention = FlashVarlen(FlashVarlenOptions(provider="reference"))
    loop = PretrainLoop(tiny_context(tokens, experiment, attention=attention, loss=loss))
    return [step.loss.item() for step in itertools.islice(loop.steps(), STEPS)]


def chain(tokens, precision, backend):
    torch._dynamo.reset()
    found = {name: losses(tokens, name, precision, backend) for name in SAME_NUMBERS}
    return {
        name: max(abs(one - other) / other for one, other in zip(found[name], found[before], strict=True))
        for before, name in itertools.pairwise(SAME_NUMBERS)
    }


@pytest.mark.parametrize("precision", LIMITS)
def test_each_link_gives_the_losses_of_the_link_before(tokens, precision, monkeypatch):
    monkeypatch.setattr(Decoder, "compile_blocks", functools.partialmethod(Decoder.compile_blocks, backend="aot_eager"))

    differences = chain(tokens, precision, "aot_eager")

    assert max(differences.values()) <= LIMITS[precision], differences


@pytest.mark.long
@pytest.mark.parametrize("precision", LIMITS)
def test_each_link_gives_the_losses_of_the_link_before_compiled_by_inductor(tokens, precision):
    differences = chain(tokens, precision, "inductor")

    assert max(differences.values()) <= LIMITS[precision], differences


def test_preparing_ahead_on_a_thread_changes_no_bit(tokens):
    def bits(prefetch):
        train = {"steps": STEPS, "precision": "fp32", "prefetch": prefetch}
        loop = PretrainLoop(tiny_context(tokens, tiny_experiment(train=train)))
        return [(step.loss.item(), step.fed) for step in itertools.islice(loop.steps(), STEPS)], loop.weights()

    assert bits(True) == bits(False)


def test_a_bf16_residual_is_a_change_of_rounding_and_shows_as_one(tokens):
    precision = "bf16-autocast"
    experiments = [
        tiny_experiment(train={"steps": 5, "precision": precision, "residual": residual})
        for residual in ("fp32", "bf16")
    ]

    found = [
        [step.loss.item() for step in itertools.islice(PretrainLoop(tiny_context(tokens, each)).steps(), 5)]
        for each in experiments
    ]

    assert found[0] != found[1]
    assert max(abs(a - b) / a for a, b in zip(*found, strict=True)) < 1e-2
