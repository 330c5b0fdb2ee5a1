"""The pytest plugin gives strangers the checks, and costs them nothing where they do not ask."""

from __future__ import annotations

import os
import subprocess
import sys

LIGHT = """
import sys

def test_nothing_heavy_was_loaded():
    heavy = {"torch", "numpy", "pydantic", "mlflow", "wandb", "psutil", "lab.conformance.loss"} & set(sys.modules)
    assert not heavy

def test_a_fixture_of_my_own_comes_first(check_loss):
    assert check_loss == "mine"

import pytest

@pytest.fixture
def check_loss():
    return "mine"
"""
USES = """
from torch.nn.functional import cross_entropy

def plain(hidden, head, targets):
    return cross_entropy(hidden @ head.T, targets, ignore_index=-100, reduction="sum")

def test_my_loss_keeps_the_contract(check_loss):
    check_loss(plain, sizes=[(9, 4, 7)])

def test_my_other_loss(check_loss):
    check_loss(lambda hidden, head, targets: plain(hidden, head, targets) / 2, sizes=[(9, 4, 7)])
"""


def run_pytest(folder, code):
    (folder / "test_stranger.py").write_text(code)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "test_stranger.py"]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_a_stranger_who_does_not_ask_loads_nothing_and_keeps_their_own_names(tmp_path):
    done = run_pytest(tmp_path, LIGHT)

    assert "2 passed" in done.stdout, done.stdout


def test_a_stranger_who_asks_reads_what_is_wrong(tmp_path):
    done = run_pytest(tmp_path, USES)

    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "ContractBroken: T 9 d 4 V 7: the sum is" in done.stdout
