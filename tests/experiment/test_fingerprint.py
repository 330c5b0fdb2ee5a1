from __future__ import annotations

import subprocess
import sys

import pytest

from lab.experiment import COMPUTING_KEYS, Experiment, fingerprint, load


@pytest.fixture
def of(project):
    def of(*overrides):
        return fingerprint(load("smoke", project / "experiments", overrides).experiment)

    return of


@pytest.mark.parametrize(
    "override",
    [
        "seed=43",
        "loop.x=1",
        "attention=flex",
        "attention.provider=fa3",
        "loss=liger",
        "data.context=2048",
        "data.source.subset=x",
        "model.layers=5",
        "batch.packs=2",
        "optimizer.learning_rate=1e-4",
        "train.steps=7",
        "evaluate.every=3",
        "environment.packages=['torch==2.14.1']",
    ],
)
def test_what_decides_the_computation_changes_the_fingerprint(of, override):
    assert of(override) != of()


@pytest.mark.parametrize(
    "override",
    [
        "description=other",
        "group=other",
        "observers.profiler.steps=[1]",
        "trackers.wandb.where=worker",
        "checkpoint.every=5",
        "limits.hours=2",
    ],
)
def test_what_does_not_decide_it_leaves_the_fingerprint(of, override):
    assert of(override) == of()


def test_a_default_said_and_a_default_left_out_are_one(of):
    assert of("batch.micro_batches=2", "optimizer.betas=[0.9, 0.95]", "train.prefetch=false") == of()


def test_every_key_was_thought_of():
    not_computing = {"name", "description", "group", "observers", "trackers", "checkpoint", "limits", "results"}

    assert set(Experiment.model_fields) == set(COMPUTING_KEYS) | not_computing


def test_the_name_of_the_file_is_not_in_it(project):
    folder = project / "experiments"
    (folder / "renamed.toml").write_bytes((folder / "smoke.toml").read_bytes())

    assert fingerprint(load("renamed", folder).experiment) == fingerprint(load("smoke", folder).experiment)


def test_the_fingerprint_is_the_same_in_another_process(of, project):
    code = (
        "from pathlib import Path; from lab.experiment import fingerprint, load;"
        "print(fingerprint(load('smoke', Path('experiments')).experiment))"
    )
    environment = {"PYTHONHASHSEED": "7", "PATH": ""}
    out = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env=environment, capture_output=True, text=True, check=True
    )

    assert out.stdout.strip() == of()


def test_an_experiment_comes_back_from_its_record(project):
    experiment = load("smoke", project / "experiments", ["attention.provider=fa3"]).experiment

    again = Experiment.model_validate(experiment.model_dump(mode="json"))

    assert again == experiment
    assert fingerprint(again) == fingerprint(experiment)
