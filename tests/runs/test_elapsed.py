from __future__ import annotations

import pytest

from lab.runs import elapsed, records
from lab.runs.directory import RunDirectory
from lab.runs.row import read_row


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "smoke")


def stages(run, *lines):
    for line in lines:
        records.append_line(run.stages, line)


def entered(attempt):
    return {"event": "entered", "attempt": attempt}


def started(unix, stage="prepare"):
    return {"event": "started", "stage": stage, "unix": unix}


def ended(seconds, stage="prepare"):
    return {"event": "ended", "stage": stage, "seconds": seconds, "exit_code": 1}


def test_a_run_that_failed_before_its_worker_took_the_time_of_its_stages(run):
    stages(run, entered(1), started(10.0, "preflight"), ended(2.5, "preflight"), started(13.0), ended(1.5))

    assert read_row(run).elapsed_seconds == 4.0


def test_a_lost_run_took_as_long_as_its_last_step_says(run):
    stages(run, entered(1), started(10.0), ended(2.0), started(20.0, "train"))
    records.append_line(run.metrics, {"kind": "evaluation", "step": 0, "time": 25.0})
    records.append_line(run.metrics, {"kind": "step", "step": 1, "time": 50.0})

    assert read_row(run).elapsed_seconds == 2.0 + 30.0


def test_every_attempt_counts_and_the_time_between_them_does_not(run):
    stages(run, entered(1), started(10.0), ended(2.0), entered(2), started(9000.0), ended(3.0))

    assert elapsed.by_stages(run) == 5.0


def test_the_steps_of_an_earlier_attempt_say_nothing_of_the_stage_that_runs(run):
    records.append_line(run.metrics, {"kind": "step", "step": 1, "time": 50.0})
    stages(run, entered(1), started(20.0, "train"), entered(2), started(100.0, "preflight"))

    assert elapsed.by_stages(run) is None


def test_what_the_worker_says_goes_first(run):
    stages(run, entered(1), started(10.0), ended(2.0))
    records.write_json(run.summary, {"elapsed_seconds": 0.0})

    assert read_row(run).elapsed_seconds == 0.0


@pytest.mark.parametrize("line", [{}, {"event": "started", "unix": "x"}, {"event": "ended", "seconds": None}])
def test_records_that_tell_nothing_leave_it_unknown(run, line):
    stages(run, line)

    assert elapsed.by_stages(run) is None
