"""`lab run quantise`: a run without any training, whose figures are those of plain numpy."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from lab.errors import LabError
from lab.runs import records
from lab.runs.directory import every
from lab.settings import read_settings
from lab_quantise import rows


def test_quantise_runs_and_is_recorded_listed_and_reported_like_any_other(lab, project):
    done = lab("run", "quantise", "--set", "trackers.mlflow=false")

    [run] = every(read_settings().runs_folder)
    tensor = np.load(run.path / "tensor.npy")
    scales = np.abs(tensor).max(axis=1) / 127
    off = tensor.astype(np.float64) - np.rint(tensor / scales[:, None]) * scales[:, None].astype(np.float64)
    figures = records.read_json(run.path / "quantise.json")
    assert (done.code, tensor.dtype, tensor.shape) == (0, np.float32, (256, 512))
    assert figures["largest_error"] == pytest.approx(np.abs(off).max(), rel=1e-4)
    assert figures["relative_error"] == pytest.approx(np.sqrt((off**2).sum() / (tensor.astype(float) ** 2).sum()), 1e-4)
    assert figures["largest_error"] <= figures["largest_scale"] * 0.5001
    assert (figures["before_bytes"], figures["after_bytes"]) == (256 * 512 * 4, 256 * 512 + 256 * 4)
    with np.load(run.path / "quantised.npz") as stored:
        assert (stored["values"].dtype, stored["scales"].dtype) == (np.int8, np.float32)
        assert np.allclose(stored["values"] * stored["scales"], tensor, rtol=0, atol=figures["largest_error"] * 1.001)

    [row] = json.loads(lab("runs", "--json").out)
    shown = lab("runs", "show", run.id)
    reported = lab("report", run.id)
    assert (row["experiment"], row["status"], row["exit_code"]) == ("quantise", "completed", 0)
    assert shown.code == reported.code == 0
    assert "quantise" in shown.out
    assert "relative_error" in lab("runs", "logs", run.id).out
    assert "25.2% of the bytes, relative error 0." in done.out
    page = run.report.read_text(encoding="utf-8")
    assert "The tensor in 8 bits" in page
    assert "relative_error" in page
    assert not list(project.rglob("*.part"))
    shutil.copytree(run.path, run.path.with_name("quantise-20261201-0915-aaaa"))
    compared = lab("compare", run.id, "quantise-20261201-0915-aaaa")
    assert (compared.code, compared.err) == (0, "")


def test_small_rows_and_rows_of_zeros_are_exact_where_they_can_be():
    matrix = np.array([[0, 0, 0], [127, -127, 1], [1e-45, 0, -1e-45], [254, 1, -3]], dtype=np.float32)

    small = rows.quantised(matrix)

    assert small.values.tolist() == [[0, 0, 0], [127, -127, 1], [0, 0, 0], [127, 0, -2]]
    assert rows.errors(matrix, small.restored())["largest_error"] == 1.0
    assert rows.errors(matrix[:1], small.restored()[:1]) == {"largest_error": 0.0, "relative_error": 0.0}


@pytest.mark.parametrize(
    "matrix",
    [np.full((2, 2), np.nan, np.float32), np.full((2, 2), np.inf, np.float32), np.zeros(3, np.float32),
     np.zeros((2, 2)), np.zeros((0, 4), np.float32)],
)  # fmt: skip
def test_what_has_no_scale_is_refused(matrix):
    with pytest.raises(LabError):
        rows.quantised(matrix)


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY\x01\x00", b"no tensor"])
def test_a_missing_or_damaged_tensor_fails_the_stage_with_a_message(tmp_path, content):
    (tmp_path / "config.json").write_text('{"experiment": {"seed": 1}}')
    if content is not None:
        (tmp_path / "tensor.npy").write_bytes(content)

    command = [sys.executable, "-m", "lab_quantise", "quantise", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {tmp_path / 'tensor.npy'}: is no tensor file")
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "quantise.json").exists()
