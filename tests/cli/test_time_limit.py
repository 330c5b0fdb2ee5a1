from __future__ import annotations

import json

import pytest

from lab.cli.time_limit import advice
from lab.jobs.stages import JOB_LIMIT, TIME_LIMIT
from lab.runs.directory import RunDirectory, every
from lab.settings import read_settings

SLOW = """
[trackers]
mlflow = false
[limits]
hours = 0.0003
[[stages]]
name = "train"
run = ["sh", "-c", "exec sleep 60"]
"""
REASON = f"{TIME_LIMIT} 36 s ({JOB_LIMIT})"


@pytest.fixture
def run(tmp_path):
    path = tmp_path / "smoke-1"
    path.mkdir()
    return RunDirectory(path)


def test_record_terminal_and_listing_say_that_the_time_limit_ended_the_run_and_how_it_goes_on(lab, project):
    (project / "experiments" / "slow.toml").write_text(SLOW)

    ended = lab("run", "slow")
    [ran] = every(read_settings().runs_folder)
    shown = lab("runs", "show")

    reason = "ended by the time limit of 1.08 s (limits.hours)"
    outcome = json.loads(ran.outcome.read_text())
    assert (ended.code, outcome["status"], outcome["exit_code"], outcome["reason"]) == (143, "stopped", 143, reason)
    for text in (ended.out, shown.out):
        assert reason in text
        assert "Nobody stopped it: its time was over." in text
        assert f"lab resume {ran.id}" in text
        assert "For longer, first raise limits.hours in experiments/slow.toml." in text


@pytest.mark.parametrize("reason", ["", "asked to stop", "exit code 1", "killed by SIGKILL: probably out of memory"])
def test_a_run_that_ended_otherwise_gets_no_such_advice(run, reason):
    assert advice(run, reason, {}) == ""


def test_without_a_checkpoint_it_says_that_a_resume_starts_over(run):
    without = advice(run, REASON, {})
    run.checkpoint.write_bytes(b"")

    assert "It has no checkpoint: lab resume smoke-1 starts over" in without
    assert "lab resume smoke-1 goes on from its checkpoint" in advice(run, REASON, {})


@pytest.mark.parametrize(
    ("reason", "config"),
    [
        (REASON, {"files": ["a.toml"], "overrides": ["limits.hours=0.01"]}),
        (f"{TIME_LIMIT} 36 s (hours of this stage)", {"files": ["a.toml"], "overrides": []}),
        (REASON, {"files": "damaged", "overrides": 3}),
        (REASON, {}),
    ],
)
def test_a_limit_that_a_resumed_run_would_repeat_needs_a_new_run(run, reason, config):
    assert advice(run, reason, config).endswith("For longer, start a new run with a larger limit.")
