"""A run that is profiled, snapshotted and watched by an observer that raises computes the bits of one that is not."""

from __future__ import annotations

import gzip
import json

import pytest
from tiny_run import metric_lines, tiny_experiment, tiny_run

from lab.runs import records
from lab.worker.attempt import Attempt
from lab.worker.stop import Stop

RAISING = """
from lab import Part, hookimpl
from lab.contracts import Observer

class Raising(Observer):
    def __init__(self, options): pass
    def phase_ended(self, step, phase):
        raise ZeroDivisionError("mine")

@hookimpl
def observers():
    return [Part("raising", target="lab_raising:Raising")]
"""
WATCHED = {"profiler": {"steps": [2, 3]}, "memory-snapshot": {"step": 5}, "raising": {}}


def executed(folder, **changes):
    run = tiny_run(folder, tiny_experiment(**changes))
    assert Attempt(run, Stop()).execute() == 0
    return run


@pytest.mark.usefixtures("project")
def test_watched_and_unwatched_runs_compute_the_same_bits(tmp_path, install_plugin):
    install_plugin("raising", RAISING)

    watched = executed(tmp_path / "watched", observers=WATCHED)
    plain = executed(tmp_path / "plain")

    numbers = ("step", "loss", "gradient_norm", "targets", "fed")
    one, other = ([[line[key] for key in numbers] for line in metric_lines(run)] for run in (watched, plain))
    assert one == other
    losses = [[line["loss"] for line in metric_lines(run, "evaluation")] for run in (watched, plain)]
    assert losses[0] == losses[1]
    ends = [records.read_json(run.summary)["fingerprints"]["weights_final"] for run in (watched, plain)]
    assert ends[0] == ends[1]


@pytest.mark.usefixtures("project")
def test_observed_steps_are_outside_what_is_measured_and_their_records_are_honest(tmp_path):
    run = executed(tmp_path, observers={"profiler": {"steps": [2, 3]}, "memory-snapshot": {"step": 5}})

    lines = metric_lines(run)
    assert [line["step"] for line in lines if line["observed"]] == [2, 3, 5]
    profile = json.loads((run.path / "profile.json").read_text())
    assert profile["captured"] == [2, 3]
    assert {"forward", "backward", "optimizer"} <= {phase["phase"] for phase in profile["phases"]}
    assert json.loads((run.path / "memory-events.json").read_text())["available"] is False
    artifacts = {line["path"]: line["kind"] for line in records.read_lines(run.artifacts)}
    assert artifacts == {"timeline.json.gz": "trace", "profile.json": "json", "memory-events.json": "json"}
    notes = records.read_json(run.environment)["notes"]
    assert notes["memory-snapshot"] == "not available: the device 'cpu' has no CUDA allocator"


@pytest.mark.usefixtures("project")
def test_the_trace_has_no_evaluation_although_one_runs_after_the_observed_step(tmp_path):
    run = executed(tmp_path, observers={"profiler": {"steps": [2]}}, evaluate={"every": 1, "batches": 2, "tokens": 64})

    events = json.loads(gzip.decompress((run.path / "timeline.json.gz").read_bytes()))["traceEvents"]
    ranges = [event for event in events if event.get("cat") == "user_annotation"]
    (step,) = [event for event in ranges if event["name"] == "step 2"]
    work = [event for event in events if event.get("cat") == "cpu_op"]
    assert sum(event["name"] == "forward" for event in ranges) == 2  # two micro-batches; an evaluation has no phases
    assert all(step["ts"] <= event["ts"] <= step["ts"] + step["dur"] for event in work)
