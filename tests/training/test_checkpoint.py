"""Checkpoints: whole or not there, loadable without running anything, of the model's own types."""

from __future__ import annotations

import math
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.errors import LabError
from lab.training import checkpoint
from lab.training import random as generators

REPOSITORY = Path(__file__).parents[2]


def test_what_was_saved_comes_back_with_weights_only(tmp_path):
    state = {"step": 3, "tensor": torch.arange(4.0), "nested": {"list": [1, 2], "text": "x"}}

    checkpoint.save(tmp_path / "checkpoint.pt", state)
    loaded = checkpoint.load(tmp_path / "checkpoint.pt")

    assert torch.equal(loaded.pop("tensor"), state.pop("tensor"))
    assert loaded == state


def test_the_state_of_every_generator_loads_safely_and_goes_on_where_it_was(tmp_path):
    generators.seed_everything(11)
    random.gauss(0, 1)
    np.random.standard_normal(3)
    checkpoint.save(tmp_path / "checkpoint.pt", {"random": generators.state()})
    expected = (random.random(), random.gauss(0, 1), np.random.standard_normal(2).tolist(), torch.rand(2).tolist())

    generators.seed_everything(99)
    generators.restore(checkpoint.load(tmp_path / "checkpoint.pt")["random"])

    found = (random.random(), random.gauss(0, 1), np.random.standard_normal(2).tolist(), torch.rand(2).tolist())
    assert found == expected


def test_no_line_of_the_code_loads_without_weights_only():
    unsafe = re.compile(r"torch\.load\((?![^)]*weights_only=True)", re.DOTALL)
    sources = [path for folder in ("src", "plugins", "benchmarks") for path in (REPOSITORY / folder).rglob("*.py")]

    assert sources
    assert [path.name for path in sources if unsafe.search(path.read_text(encoding="utf-8"))] == []


def test_no_checkpoint_is_no_error(tmp_path):
    assert checkpoint.load(tmp_path / "checkpoint.pt") is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_in_place_of_a_checkpoint_is_named_and_not_waited_for(tmp_path, make):
    make(tmp_path / "checkpoint.pt")

    with pytest.raises(LabError, match=r"checkpoint\.pt: .*is not a regular file"):
        checkpoint.load(tmp_path / "checkpoint.pt")


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"PK\x03\x04 torn"])
def test_a_broken_checkpoint_is_named(tmp_path, content):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)

    with pytest.raises(LabError, match=re.escape(str(path))):
        checkpoint.load(path)


def test_a_flipped_byte_is_refused_by_the_name_of_its_record(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"model": {"weight": torch.full((1000,), 1.5)}})
    content = bytearray(path.read_bytes())
    content[content.index(torch.full((4,), 1.5).numpy().tobytes()) + 1000] ^= 1
    path.write_bytes(content)

    with pytest.raises(LabError, match=r"is damaged: .*data/0"):
        checkpoint.load(path)


def test_a_checkpoint_that_would_run_code_is_refused(tmp_path):
    torch.save({"path": Path("x")}, tmp_path / "checkpoint.pt")

    with pytest.raises(LabError, match=r"(?s)can be loaded.*move it away"):
        checkpoint.load(tmp_path / "checkpoint.pt")


def test_a_failing_save_leaves_the_previous_one_and_no_part(tmp_path):
    path = tmp_path / "checkpoint.pt"
    checkpoint.save(path, {"step": 1})

    with pytest.raises((LabError, AttributeError, TypeError)):
        checkpoint.save(path, {"step": 2, "cannot be pickled": lambda: None})

    assert checkpoint.load(path) == {"step": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.pt"]


FULL_DISK = """
import resource, signal, sys, torch
from pathlib import Path
from lab.errors import LabError
from lab.training import checkpoint

path = Path(sys.argv[1])
checkpoint.save(path, {"step": 4})
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    checkpoint.save(path, {"step": 5, "weights": torch.zeros(100_000)})
except LabError as error:
    print(error)
"""


def test_a_full_disk_is_said_and_leaves_the_previous_one_and_no_part(tmp_path):
    path = tmp_path / "checkpoint.pt"

    full = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=False)

    assert (full.returncode, full.stderr) == (0, "")
    assert f"{path}: the checkpoint cannot be written" in full.stdout
    assert checkpoint.load(path) == {"step": 4}
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.pt"]


KILLED_WHILE_SAVING = """
import os, signal, sys, torch
from pathlib import Path
from lab.training import checkpoint

path = Path(sys.argv[1])
checkpoint.save(path, {"step": 4})
whole = torch.save

def half(state, file):
    whole(state, file)
    file.truncate(file.tell() // 2)
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)

torch.save = half
checkpoint.save(path, {"step": 5})
"""


def test_kill_9_in_the_middle_of_a_save_leaves_the_previous_one_and_the_part_is_removed(tmp_path):
    path = tmp_path / "checkpoint.pt"

    ended = subprocess.run([sys.executable, "-c", KILLED_WHILE_SAVING, str(path)], env={**os.environ}, check=False)

    assert ended.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 2
    assert checkpoint.remove_parts(path) == 1
    assert checkpoint.load(path) == {"step": 4}
    assert [entry.name for entry in tmp_path.iterdir()] == ["checkpoint.pt"]


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"model": {"head": torch.tensor([1.0, math.nan])}}, r"step 5: model\.head holds"),
        ({"optimizer": {"state": {0: {"exp_avg": torch.tensor(math.nan)}}}}, r"optimizer\.state\.0\.exp_avg"),
        ({"averages": [torch.zeros(1), (torch.tensor([math.nan], dtype=torch.bfloat16),)]}, r"averages\.1\.0"),
    ],
)
def test_a_tensor_with_a_nan_is_found_by_its_place(state, named):
    with pytest.raises(LabError, match=named) as refused:
        checkpoint.check_state(state, 5)

    assert "is a new run" in refused.value.do


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"seen": {"rows": [1, np.arange(3)]}}, r"step 5: seen\.rows\.1 is a ndarray, and no checkpoint"),
        ({"best": np.float64(2.5)}, r"best is a float64"),
        ({"folder": Path("x")}, r"folder is a \w*Path"),
        ({"call": lambda: None}, r"call is a function"),
    ],
)
def test_what_could_not_be_loaded_again_is_found_by_its_place_before_it_is_saved(state, named):
    with pytest.raises(LabError, match=named) as refused:
        checkpoint.check_state(state, 5)

    assert "state_dict()" in refused.value.do


def test_what_is_infinite_or_loads_passes(tmp_path):
    state = {
        "mask": torch.full((2, 2), -math.inf).triu(1),
        "model": torch.nn.Linear(2, 2).state_dict(),
        "optimizer": torch.optim.AdamW([torch.zeros(2, requires_grad=True)]).state_dict(),
        "rest": [math.nan, None, "text", (1, True), b"bytes", torch.Size([2]), torch.float32, {3}, torch.device("cpu")],
    }

    checkpoint.check_state(state, 5)

    checkpoint.save(tmp_path / "checkpoint.pt", state)
    assert checkpoint.load(tmp_path / "checkpoint.pt") is not None


def test_tensors_of_another_type_are_refused_and_not_converted():
    own = {"weight": torch.zeros(2, dtype=torch.bfloat16)}

    with pytest.raises(LabError, match=r"weight is torch.float32 \(2,\), the model's is torch.bfloat16"):
        checkpoint.check_same(own, {"weight": torch.zeros(2)})


@pytest.mark.parametrize("saved", [{}, {"weight": torch.zeros(3)}, {"weight": torch.zeros(2), "more": torch.zeros(1)}])
def test_other_names_and_shapes_are_refused(saved):
    with pytest.raises(LabError):
        checkpoint.check_same({"weight": torch.zeros(2)}, saved)
