from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from sample_runs import edit

from lab.compare import facts
from lab.compare.comparison import Comparison, compare
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from pathlib import Path

EXPERIMENT = """
description = "As small as a run can be"
group = "tiny"
seed = 42
loop = "pretrain"
attention = "sdpa"
loss = "chunked"
[trackers]
mlflow = false
[data]
source = "embedded"
context = 32
train_tokens = 3_000
validation_tokens = 500
max_documents = 100
[model]
layers = 1
width = 16
heads = 2
[batch]
tokens = 64
[optimizer]
learning_rate = 1e-3
[train]
steps = 3
warmup_steps = 0
precision = "fp32"
[evaluate]
every = 3
batches = 2
tokens = 64
"""

# What is set on the command line -> the checks that are named: that one, or what it cannot be had without.
SET = {
    "": [],
    "optimizer.learning_rate=2e-3": [],
    "model.layers=2": ["initial weights"],
    "batch.micro_batches=2": ["tokens fed"],
    "evaluate.batches=1": ["evaluation inputs"],
    "train.warmup_steps=1": ["measurement scope"],
    "train.precision=bf16-autocast": ["precision"],
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDirectory]:
    """A run for each setting, and a first one that all are compared with, made by the command."""
    project = tmp_path_factory.mktemp("real")
    for folder in ("experiments", ".lab"):
        (project / folder).mkdir()
    (project / "experiments" / "tiny.toml").write_text(EXPERIMENT, encoding="utf-8")
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda text: _run(project, text), ["", *SET]))
    return dict(zip(["base", *SET], found, strict=True))


def _run(project: Path, setting: str) -> RunDirectory:
    argv = [sys.executable, "-m", "lab", "run", "tiny", "--quiet", *(["--set", setting] if setting else [])]
    foreign = ("LAB_", "WANDB_", "MLFLOW_", "RUNPOD_", "HF_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    answer = subprocess.run(
        argv,
        cwd=project,
        env={**clean, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr[-2000:]
    return RunDirectory.open(project / ".runs" / answer.stdout.split()[-1])


def compared(a: RunDirectory, b: RunDirectory) -> Comparison:
    return compare([facts.read(a), facts.read(b)])


def failed(comparison: Comparison) -> list[str]:
    return [check.name for check in comparison.pairs[0].failed]


@pytest.mark.parametrize("setting", SET)
def test_one_setting_names_its_check_and_nothing_else(setting: str, real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real[setting])

    assert failed(result) == SET[setting]
    declared = [one.key for one in result.pairs[0].differences if one.declared]
    assert declared == ([setting.partition("=")[0]] if setting else [])


def test_the_same_experiment_twice_is_the_same_to_the_last_bit(real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real[""])

    assert result.pairs[0].claims[0] == "The training loss is the same to the last bit in all 3 shared steps."
    assert {str(one.verdict) for one in result.pairs[0].judgements} == {"comparable"}


def edit_hardware(run: RunDirectory, **fields: object) -> None:
    """The one thing that this machine cannot vary by itself."""
    edit(run.environment, **fields)


@pytest.mark.parametrize(("fields", "check"), [({"cpu": "Another CPU"}, "CPU model"), ({"threads": 64}, "CPU threads")])
def test_other_hardware_is_named(fields: dict, check: str, real: dict[str, RunDirectory]) -> None:
    before = real[""].environment.read_bytes()
    edit_hardware(real[""], **fields)

    result = compared(real["base"], real[""])

    real[""].environment.write_bytes(before)
    assert failed(result) == [check]
