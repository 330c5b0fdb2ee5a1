"""How a line of metrics.jsonl becomes MLflow's points."""

from __future__ import annotations

import os

import pytest

from lab.errors import LabError
from lab.runs import records
from lab_mlflow.points import Reader

LINE = {"kind": "step", "step": 3, "time": 10.0, "loss": 2.0, "seconds": 0.5, "targets": 100}
SAMPLE = {
    "process_bytes": 1_000,
    "processor_percent": 150.0,
    "gpu_percent": 97,
    "gpu_memory_bytes": 60_000,
    "gpu_watts": 650.5,
}


def points(path, **options):
    found = (point for line, _ in Reader(path, **options).new() for point in line)
    return {(point.key, point.step): point.value for point in found}


def test_what_the_machine_does_stands_with_the_system_metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records.append_line(path, LINE | SAMPLE)

    found = points(path)

    assert found["system/process_memory_bytes", 3] == 1_000
    assert found["system/cpu_utilization_percentage", 3] == 150
    assert found["system/gpu_0_utilization_percentage", 3] == 97
    assert found["system/gpu_0_memory_bytes", 3] == 60_000
    assert found["system/gpu_0_power_usage_watts", 3] == 650.5
    assert found["perf/tokens_per_second", 3] == 200


def test_what_is_sampled_by_time_is_not_thinned_by_steps(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records.append_line(path, LINE | SAMPLE | {"learning_rate": 1e-3})

    found = {key for key, _ in points(path, stride=10)}

    assert {"train/loss", "perf/tokens_per_second", "system/gpu_0_power_usage_watts"} <= found
    assert "train/learning_rate" not in found


NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_metrics_that_are_no_file_are_named_and_not_waited_for(tmp_path, make):
    path = tmp_path / "metrics.jsonl"
    make(path)

    for read in (points, lambda path: Reader(path).skip_to(10, "sha")):
        with pytest.raises(LabError, match=r"metrics\.jsonl: cannot be read: is not a regular file"):
            read(path)
