from __future__ import annotations

import math

import pytest

from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.summary import read_or_rebuild, rebuilt


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    evaluation = {"kind": "evaluation", "step": 0, "loss": 9.0, "inputs": "i", "time": 100.0}
    records.append_line(run.metrics, evaluation)
    for step in range(1, 6):
        line = {
            "kind": "step", "step": step, "time": 100.0 + step, "loss": 10.0 - step, "seconds": float(step),
            "targets": 100 * step, "tokens": 110, "flops": 1000, "fed": f"fed{step}", "warmup": step == 1,
            "observed": step == 3, "allocated_bytes": step, "reserved_bytes": None, "targets_total": 1000 * step,
            **({"others_percent": 10.0 * step} if step != 4 else {}),
        }  # fmt: skip
        records.append_line(run.metrics, line)
    records.append_line(run.metrics, {**evaluation, "step": 4, "loss": 5.0, "time": 106.0})
    return run


def test_figures_come_from_steps_that_are_neither_warm_up_nor_observed(run):
    measured = rebuilt(run, "failed")["measured"]

    assert (measured["steps"], measured["seconds"], measured["targets"]) == (3, 11.0, 1100)
    assert measured["tokens_per_second"] == 100.0
    assert measured["median_step_seconds"] == 4.0
    assert measured["peak_allocated_bytes"] == 5
    assert measured["peak_reserved_bytes"] is None
    assert measured["others_percent"] == 35.0  # of steps 2 and 5: no sample fell to step 4


def test_what_the_lines_do_not_tell_is_unknown_and_said_so(run):
    summary = rebuilt(run, "failed", "killed")

    assert summary["rebuilt"]
    assert (summary["status"], summary["reason"]) == ("failed", "killed")
    assert summary["measured"]["mfu"] is None
    assert summary["measured"]["mfu_reason"] == "the device's peak is not recorded"
    assert summary["fingerprints"]["weights_final"] is None


def test_mfu_is_model_flops_over_time_and_the_peak_with_its_source_beside_it(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    peak = {"flops": 989.4e12, "source": "NVIDIA H200 datasheet, dense", "reason": ""}
    records.write_json(run.environment, {"peak": peak})
    for step in (1, 2):
        line = {"kind": "step", "step": step, "time": 2.0 * step, "seconds": 2.0, "targets": 10, "flops": 2 * 494.7e12}
        records.append_line(run.metrics, line)

    measured = rebuilt(run, "failed")["measured"]

    assert measured["mfu"] == 0.5
    assert (measured["peak_flops"], measured["peak_source"]) == (989.4e12, "NVIDIA H200 datasheet, dense")


def test_the_time_between_two_attempts_does_not_count_as_elapsed(run):
    for start in (98.0, 1000.0):
        records.append_line(run.stages, {"stage": "prepare", "event": "started", "unix": start - 5})
        records.append_line(run.stages, {"stage": "train", "event": "started", "unix": start})
    records.append_line(run.metrics, {"kind": "step", "step": 6, "time": 1003.0})

    assert rebuilt(run, "lost")["elapsed_seconds"] == (106.0 - 98.0) + (1003.0 - 1000.0)


def test_a_clock_that_is_set_forward_makes_no_attempt_longer_than_its_stage(run):
    records.append_line(run.stages, {"stage": "train", "event": "started", "unix": 98.0})
    records.append_line(run.metrics, {"kind": "step", "step": 6, "time": 18_000.0})
    records.append_line(run.stages, {"stage": "train", "event": "ended", "unix": 18_001.0, "seconds": 9.5})

    assert rebuilt(run, "lost")["elapsed_seconds"] == 9.5


def test_losses_and_fingerprints_are_those_of_the_last_whole_lines(run):
    with run.metrics.open("ab") as file:
        file.write(b'{"kind": "step", "step": 6')

    summary = rebuilt(run, "lost")

    assert summary["steps"] == 5
    assert (summary["loss"]["first"], summary["loss"]["last"]) == (9.0, 5.0)
    assert summary["loss"]["evaluations"] == [
        {"step": 0, "loss": 9.0, "targets_total": 0},
        {"step": 4, "loss": 5.0, "targets_total": 4000},
    ]
    assert (summary["fingerprints"]["fed"], summary["fingerprints"]["evaluation_inputs"]) == ("fed5", "i")
    assert summary["elapsed_seconds"] == 6.0


def test_a_run_without_a_step_has_a_summary_too(tmp_path):
    summary = rebuilt(RunDirectory.create(tmp_path, "smoke"), "failed")

    assert summary["steps"] == 0
    assert summary["measured"]["tokens_per_second"] is None


def test_a_loss_that_is_no_number_is_kept(run):
    records.append_line(run.metrics, {"kind": "step", "step": 6, "loss": math.nan})

    assert math.isnan(rebuilt(run, "failed")["loss"]["last"])


def test_the_workers_own_summary_is_preferred(run):
    records.write_json(run.summary, {"steps": 3})

    assert read_or_rebuild(run, "completed") == {"steps": 3}
