"""How a line of metrics.jsonl becomes MLflow's points."""

from __future__ import annotations

from lab.runs import records
from lab_mlflow.points import Reader


def test_what_the_process_takes_stands_with_the_system_metrics(tmp_path):
    path = tmp_path / "metrics.jsonl"
    line = {"kind": "step", "step": 3, "time": 10.0, "loss": 2.0, "seconds": 0.5, "targets": 100}
    records.append_line(path, {**line, "process_bytes": 1_000, "processor_percent": 150.0})

    points = {point.key: (point.value, point.step) for found, _ in Reader(path).new() for point in found}

    assert points["system/process_memory_bytes"] == (1_000.0, 3)
    assert points["system/cpu_utilization_percentage"] == (150.0, 3)
    assert points["perf/tokens_per_second"] == (200.0, 3)
