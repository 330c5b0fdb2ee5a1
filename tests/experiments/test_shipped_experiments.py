"""Every shipped experiment resolves, and each link of a chain changes what it says and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from lab.experiment import Experiment, PartChoice, load, names
from lab.launch.plan import plan
from lab.plugins import Plugins
from lab.settings import read_settings
from lab.training.model import Decoder

FOLDER = Path(__file__).parents[2] / "experiments"
VOCABULARY = 50_257
PARAMETERS = 126_716_160

DECLARED = {
    "smoke-flex": ("smoke", {"attention.name"}),
    "smoke-fineweb": ("smoke", {"data.source.name", "data.source.subset", "data.source.revision"}),
    "cycle": (
        "baseline",
        {
            "observers.profiler.steps", "observers.memory-snapshot.step", "train.warmup_steps",
            "evaluate.before_training", "limits.hours",
        },
    ),
    "flex": ("corrected", {"attention.name", "attention.provider"}),
    "fast-padded": ("corrected", {"loss.name"}),
    "fast-compiled": ("fast-padded", {"batch.static", "train.compile"}),
    "fast-unsynced": ("fast-compiled", {"optimizer.fused", "train.prefetch"}),
    "fast-few-chunks": ("fast-unsynced", {"loss.chunks", "loss.compile"}),
    "fast-attention": ("fast-few-chunks", {"attention.provider", "environment.packages"}),
    "fast-bf16-residual": ("fast-attention", {"train.residual"}),
    "fast": ("fast-bf16-residual", {"model.heads"}),
}  # fmt: skip

LARGE = ["baseline", "cycle", "corrected", "flex", "max-batch", *(name for name in DECLARED if name.startswith("fast"))]


@pytest.mark.parametrize("name", names(FOLDER))
def test_it_resolves_with_every_part_and_option_known(name: str) -> None:
    experiment = Plugins(frozenset()).check(load(name, FOLDER).experiment)

    assert isinstance(experiment, Experiment)
    assert experiment.description


@pytest.mark.parametrize("name", DECLARED)
def test_it_changes_what_it_says_in_what_it_extends_and_nothing_else(name: str) -> None:
    base, keys = DECLARED[name]

    declared = load(name, FOLDER).declarations[-1]

    assert declared.base == base
    assert {change.key for change in declared.changes} == keys


def test_every_experiment_that_extends_another_is_in_the_table_above() -> None:
    assert {name for name in names(FOLDER) if load(name, FOLDER).declarations} == set(DECLARED)


@pytest.mark.parametrize("name", LARGE)
def test_the_large_model_has_the_published_number_of_parameters(name: str) -> None:
    experiment = load(name, FOLDER).experiment
    assert experiment.model is not None
    assert experiment.data is not None

    with torch.device("meta"):
        model = experiment.model
        decoder = Decoder(model.layers, model.width, model.heads, VOCABULARY, experiment.data.context)

    assert sum(parameter.numel() for parameter in decoder.parameters()) == PARAMETERS


@pytest.mark.parametrize("name", names(FOLDER))
def test_it_dry_runs(name: str, project: Path) -> None:
    planned = plan(name, (), read_settings(), Plugins(), PartChoice(name="local"))

    assert planned.job.stages[-1].name == ("quantise" if name == "quantise" else "train")
