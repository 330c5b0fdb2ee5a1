"""Liger's kernels without a GPU: run by Triton's interpreter, and compiled for the GPUs that they are for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from lab_liger.loss import LigerLoss

HERE = Path(__file__).parent


def run(script: str, *arguments: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, HERE / script, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.fixture(scope="module")
def interpreted() -> dict[str, Any]:
    return json.loads(run("liger_cases.py", TRITON_INTERPRET="1"))


@pytest.mark.parametrize("case", ["fp32", "odd"])
def test_fp32_value_and_gradients_equal_plain_cross_entropy(interpreted: dict[str, Any], case: str) -> None:
    errors = interpreted[case]

    assert max(errors["loss"], errors["d_hidden"], errors["d_head"]) < 2e-6


def test_under_bf16_autocast_the_sum_and_the_gradients_stay_fp32(interpreted: dict[str, Any]) -> None:
    errors = interpreted["bf16"]

    assert errors["dtypes"] == ["torch.float32"] * 3
    assert errors["loss"] < 2e-4
    assert max(errors["d_hidden"], errors["d_head"]) < 1e-2


def test_a_sum_takes_the_fast_path_and_a_factor_would_not(interpreted: dict[str, Any]) -> None:
    assert interpreted["rescaled"] is False
    assert interpreted["rescaled with a factor"] is True


def test_targets_that_are_all_ignored_give_zero_and_zero_gradients(interpreted: dict[str, Any]) -> None:
    assert interpreted["all ignored"] == [0.0, 0.0, 0.0]


def test_the_interpreter_is_named_as_the_kernel_and_may_train(interpreted: dict[str, Any]) -> None:
    assert interpreted["kernel"].endswith("in Triton's interpreter")
    assert interpreted["preflight"] is None


@pytest.mark.parametrize("capability", ["80", "90"])
def test_the_kernel_compiles_for_the_gpu(capability: str, tmp_path: Path) -> None:
    size = int(run("liger_compiles.py", capability, TRITON_CACHE_DIR=str(tmp_path)))

    assert size > 10_000


def test_without_a_gpu_preflight_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)

    reason = LigerLoss().preflight(torch.device("cpu"))

    assert reason is not None
    assert 'Set loss = "chunked"' in reason


def test_a_gpu_may_train() -> None:
    assert LigerLoss().preflight(torch.device("cuda")) is None
