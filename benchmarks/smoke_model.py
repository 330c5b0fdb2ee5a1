"""The smoke experiment on real text, prepared for a benchmark in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import torch

from lab.contracts import LoopContext
from lab.data.prepare import prepare
from lab.experiment import load
from lab.plugins import Plugins
from lab_pretrain.loop import PretrainLoop

EXPERIMENTS = Path(__file__).parent.parent / "experiments"
STORE = Path(tempfile.gettempdir()) / f"lab-benchmarks-{os.getuid()}"
SMALL = (
    "model.width=128", "model.heads=2", "model.layers=2",
    "data.context=128", "batch.tokens=128", "batch.micro_batches=1", "evaluate.tokens=128",
)  # fmt: skip
"""A step of roughly 50 ms on two cores: what surrounds a step weighs most where a step is short."""


def smoke_loop(*overrides, phase=None):
    """The loop of the smoke experiment with `--set` overrides, as the worker builds it."""
    plugins = Plugins()
    experiment = plugins.check(load("smoke", EXPERIMENTS, overrides).experiment)
    tokens = prepare(experiment.data, plugins.build("source", experiment.data.source), STORE).folder
    return PretrainLoop(
        LoopContext(
            experiment=experiment,
            options=plugins.options("loop", experiment.loop),
            device=torch.device("cpu"),
            attention=plugins.build("attention", experiment.attention),
            loss=plugins.build("loss", experiment.loss),
            tokens=tokens,
            folder=STORE,
            phase=phase or (lambda name: contextlib.nullcontext()),
            add_artifact=lambda path, kind, title: None,
            note=lambda key, value: None,
        )
    )
