from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from sample_runs import edit

from lab.compare import facts
from lab.compare.code_changes import code_changes
from lab.compare.comparison import compare
from lab.runs import tags
from lab.runs.directory import RunDirectory, every

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.compare.answer import Comparison

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
before_training = true
"""
LAB = (sys.executable, "-m", "lab")
OWN_CODE = "src/own/step.py"

# What is set on the command line -> the checks that are named: that one, or what it cannot be had without.
SET = {
    "": [],
    "optimizer.learning_rate=2e-3": [],
    "model.layers=2": ["initial weights"],
    "batch.micro_batches=2": ["tokens fed"],
    "evaluate.batches=1": ["evaluation inputs"],
    "train.warmup_steps=1": ["measurement scope"],
    "train.precision=bf16-autocast": ["precision"],
    "optimizer.learning_rate=1e30": ["both completed"],  # its second loss is not finite, and the worker stops there
}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunDirectory]:
    """A run for each setting, and a first one that all are compared with, made by the command, two at a time."""
    project = _project(tmp_path_factory.mktemp("real"))
    other_code = _project(tmp_path_factory.mktemp("code"), code="STEP = 2\n")
    edited = _project(tmp_path_factory.mktemp("edited"), EXPERIMENT.replace("= 1e-3", "= 2e-3"))
    with ThreadPoolExecutor(2) as pool:
        more = {
            "resumed": pool.submit(_stopped_and_resumed, project),
            "other variable": pool.submit(_run, project, "", MKL_DYNAMIC="FALSE"),
            "other code": pool.submit(_run, other_code, ""),
            "edited experiment": pool.submit(_run, edited, ""),
        }
        found = dict(zip(["base", *SET], pool.map(lambda text: _run(project, text), ["", *SET]), strict=True))
    return {**found, **{name: run.result() for name, run in more.items()}}


def _project(folder: Path, experiment: str = EXPERIMENT, code: str = "STEP = 1\n") -> Path:
    """A project with one experiment and one file of its own that a worker may run."""
    for path, text in {"experiments/tiny.toml": experiment, OWN_CODE: code}.items():
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(text, encoding="utf-8")
    (folder / ".lab").mkdir()
    return folder


def _run(project: Path, setting: str, **variables: str) -> RunDirectory:
    answer = _lab(project, "run", "tiny", "--quiet", *(["--set", setting] if setting else []), **variables)
    assert answer.returncode == (1 if SET.get(setting) == ["both completed"] else 0), answer.stderr[-2000:]
    return RunDirectory.open(project / ".runs" / answer.stdout.split()[-1])


def _stopped_and_resumed(project: Path) -> RunDirectory:
    """A run that was asked to stop before its first step, and went on as attempt 2."""
    name = "--tag=stopped"
    with subprocess.Popen([*LAB, "run", "tiny", "--quiet", name], cwd=project, env=_environment()) as command:
        found: list[RunDirectory] = []
        while not found and command.poll() is None:
            time.sleep(0.05)
            found = [run for run in every(project / ".runs") if run.stages.exists() and tags.read(run).tags]
        command.terminate()
    [run] = found
    answer = _lab(project, "resume", run.id, "--quiet")
    assert (command.returncode, answer.returncode) == (143, 0), answer.stderr[-2000:]
    return run


def _lab(project: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = _environment() | variables
    return subprocess.run(
        [*LAB, *words], cwd=project, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


def _environment() -> dict[str, str]:
    foreign = ("LAB_", "WANDB_", "MLFLOW_", "RUNPOD_", "HF_", "MKL_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**clean, "OMP_NUM_THREADS": "1"}


def compared(a: RunDirectory, b: RunDirectory) -> Comparison:
    return compare([facts.read(a), facts.read(b)])


def failed(comparison: Comparison) -> list[str]:
    """All that failed but the one check that fails for any two runs on a CPU."""
    *found, last = [check.name for check in comparison.pairs[0].failed]
    assert last == "memory not measured"
    return found


@pytest.mark.parametrize("setting", SET)
def test_one_setting_names_its_check_and_nothing_else(setting: str, real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real[setting])

    assert failed(result) == SET[setting]
    declared = [one.key for one in result.pairs[0].differences if one.declared]
    assert declared == ([setting.partition("=")[0]] if setting else [])


def test_the_first_step_that_is_fed_other_tokens_is_named(real: dict[str, RunDirectory]) -> None:
    fed, _ = compared(real["base"], real["batch.micro_batches=2"]).pairs[0].failed

    assert fed.note == "first differ at step 1; comes with the declared batch.micro_batches"


def test_the_same_experiment_twice_is_the_same_to_the_last_bit(real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real[""])

    assert result.pairs[0].claims[0] == "The training loss is the same to the last bit in all 3 shared steps."
    verdicts = {one.question: str(one.verdict) for one in result.pairs[0].judgements}
    assert verdicts == {"loss": "comparable", "speed": "comparable", "memory": "not comparable"}


def test_a_change_that_nobody_declared_is_named_with_its_key(real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real["edited experiment"])

    assert failed(result) == ["declared change"]
    assert result.pairs[0].failed[0].note == "1 undeclared: optimizer.learning_rate"
    assert {str(one.verdict) for one in result.pairs[0].judgements} == {"not comparable"}


def test_other_code_is_named_and_shown_line_by_line(real: dict[str, RunDirectory]) -> None:
    base, other = real["base"], real["other code"]

    assert failed(compared(base, other)) == ["code"]
    [change] = code_changes(facts.read(base), facts.read(other))
    assert (change.path, change.lines[-2:]) == (OWN_CODE, ("-STEP = 1", "+STEP = 2"))


def test_a_variable_that_steers_a_library_is_named(real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real["other variable"])

    assert failed(result) == ["libraries"]
    assert (result.pairs[0].failed[0].a, result.pairs[0].failed[0].b) == ("MKL_DYNAMIC not set", "MKL_DYNAMIC FALSE")


def test_a_resumed_run_is_named(real: dict[str, RunDirectory]) -> None:
    result = compared(real["base"], real["resumed"])

    assert failed(result) == ["resumed"]
    assert (result.pairs[0].failed[0].a, result.pairs[0].failed[0].b) == ("not resumed", "attempt 2")


@contextmanager
def kept(*files: Path) -> Iterator[None]:
    """The files are afterwards as they were."""
    before = [file.read_bytes() for file in files]
    yield
    for file, content in zip(files, before, strict=True):
        file.write_bytes(content)


def tear_in_the_middle(run: RunDirectory) -> None:
    """Leave half of the second line, as a machine does that loses its power between two writes."""
    first, second, *others = run.metrics.read_bytes().splitlines(keepends=True)
    run.metrics.write_bytes(b"".join([first, second[: len(second) // 2] + b"\n", *others]))


def test_a_torn_record_is_named(real: dict[str, RunDirectory]) -> None:
    torn = real[""]
    with kept(torn.metrics):
        tear_in_the_middle(torn)

        result = compared(real["base"], torn)

    assert failed(result) == ["whole records"]
    assert result.pairs[0].failed[0].b == "1 torn line, 1 step missing"


def edit_hardware(run: RunDirectory, **fields: object) -> None:
    """The one thing that this machine cannot vary by itself."""
    edit(run.environment, **fields)


H100 = {"device": {"type": "cuda", "name": "NVIDIA H100 80GB HBM3", "uuid": "GPU-1"}}
CLOCKED = {"device": {**H100["device"], "clocks": {"sm_mhz": 1980}}}
H200, NEIGHBOUR = {"device__name": "NVIDIA H200", "device__uuid": "GPU-2"}, {"device__uuid": "GPU-2"}
HARDWARE = {
    "CPU model": ({}, {"cpu": "Another CPU"}),
    "CPU threads": ({}, {"threads": 64}),
    "GPU model": (H100, H200),
    "GPU UUID": (H100, NEIGHBOUR),
    "clocks": (CLOCKED, {"device__clocks": {"sm_mhz": 1400}}),
}


@pytest.mark.parametrize("check", HARDWARE)
def test_other_hardware_is_named(check: str, real: dict[str, RunDirectory]) -> None:
    one, other = real["base"], real[""]
    with kept(one.environment, other.environment):
        shared, changed = HARDWARE[check]
        for run in (one, other):
            edit_hardware(run, **shared)
        edit_hardware(other, **changed)

        result = compared(one, other)

    assert failed(result) == [check]
