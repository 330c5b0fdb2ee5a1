from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import time

import psutil
import pytest

from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.status import boot_id, start_ticks, status, verdict


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    records.write_json(run.config, {"schema": 1, "backend": "local"})
    return run


def outcome(run, word, attempt=1, **more):
    records.write_json(run.outcome, {"schema": 1, "status": word, "attempt": attempt, **more})


def entered(run, attempt=1, **more):
    line = {"event": "entered", "attempt": attempt, "pid": 1, "host": socket.gethostname(), "boot": boot_id()}
    records.append_line(run.stages, {**line, "deadline": time.time() + 100, **more})


def started(run, stage, **more):
    records.append_line(run.stages, {"stage": stage, "event": "started", **more})


@pytest.fixture
def runner(run):
    """Holds the lock that a living stage runner holds."""
    entered(run)
    handle = os.open(run.stages, os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield handle
    os.close(handle)


def test_a_final_outcome_is_believed(run):
    outcome(run, "failed", exit_code=7, reason="it broke", stage="train")

    found = status(run)

    assert (found.word, found.exit_code, found.reason, found.stage) == ("failed", 7, "it broke", "train")
    assert found.recorded


def test_a_run_whose_runner_lives_is_running(run, runner):
    outcome(run, "running")
    started(run, "train", pid=1, unix=0)

    assert (status(run).word, status(run).stage) == ("running", "train")


@pytest.mark.parametrize(("code", "word"), [(0, "completed"), (1, "failed"), (137, "failed"), (143, "stopped")])
def test_an_open_outcome_ends_as_the_exit_record_says(run, code, word):
    outcome(run, "running", started="then")
    entered(run)
    records.append_line(
        run.stages, {"event": "exited", "exit_code": code, "stage": "train", "reason": "r", "time": "t"}
    )

    found = status(run)

    assert (found.word, found.exit_code, found.reason, found.ended) == (word, code, "r", "t")
    assert (found.started, found.recorded) == ("then", False)


def test_without_an_exit_record_and_a_runner_it_is_lost(run):
    outcome(run, "running")
    entered(run)
    started(run, "train", pid=2**22 + 1, unix=time.time())

    assert status(run).word == "lost"
    assert status(run).reason == "the stage runner vanished during train, without an exit record"


def test_a_stage_that_outlived_its_runner_is_still_running(run):
    outcome(run, "running")
    entered(run)
    with subprocess.Popen(["sleep", "100"]) as child:
        started(run, "train", pid=child.pid, unix=time.time())
        while_it_lives = status(run)
        child.kill()

    assert while_it_lives.word == "running"
    assert status(run).word == "lost"


def test_a_process_that_got_the_number_of_a_stage_later_is_not_the_stage(run):
    outcome(run, "running")
    entered(run)
    started(run, "train", pid=os.getpid(), unix=time.time() - 100_000)

    assert status(run).word == "lost"


@pytest.mark.parametrize("step", [-5 * 3600, 5 * 3600])
def test_a_stage_lives_though_the_clock_of_its_machine_was_set(run, step):
    outcome(run, "running")
    entered(run)
    started(run, "train", pid=os.getpid(), unix=time.time() + step, ticks=start_ticks(os.getpid()))

    assert status(run).word == "running"


@pytest.mark.parametrize(("entry", "later"), [({}, 1), ({"boot": "another"}, 0)])
def test_a_process_of_another_start_is_not_the_stage_whatever_the_clock_says(run, entry, later):
    outcome(run, "running")
    entered(run, **entry)
    started(run, "train", pid=os.getpid(), unix=process_start(), ticks=start_ticks(os.getpid()) + later)

    assert status(run).word == "lost"


def process_start():
    return psutil.Process().create_time()


def test_nothing_is_claimed_about_another_machine(run):
    outcome(run, "running")
    entered(run, host="elsewhere", boot="another")

    assert (status(run).word, status(run).recorded) == ("running", True)


def test_long_after_its_deadline_nothing_runs_on_another_machine_either(run):
    outcome(run, "running")
    entered(run, host="elsewhere", boot="another", deadline=time.time() - 7200)

    assert status(run).word == "lost"


def test_a_restarted_machine_has_lost_its_run(run):
    outcome(run, "running")
    entered(run, boot="before the restart")

    assert status(run).word == "lost"


def test_an_attempt_that_was_not_entered_yet_is_not_judged_by_the_one_before(run):
    entered(run, attempt=1)
    records.append_line(run.stages, {"event": "exited", "exit_code": 1, "stage": "train"})
    outcome(run, "created", attempt=2)

    assert status(run).word == "created"


def test_the_latest_attempt_counts(run):
    entered(run, attempt=1)
    records.append_line(run.stages, {"event": "exited", "exit_code": 1, "stage": "train"})
    entered(run, attempt=2)
    records.append_line(run.stages, {"event": "exited", "exit_code": 0, "stage": "train"})
    outcome(run, "running", attempt=2)

    assert (status(run).word, status(run).attempt) == ("completed", 2)


@pytest.mark.parametrize("left", ["nothing", "an empty file", "the attempt before"])
def test_a_run_of_this_machine_whose_stage_records_are_gone_is_lost(run, left):
    if left == "the attempt before":
        entered(run)
    elif left == "an empty file":
        run.stages.touch()
    outcome(run, "running", attempt=2)
    records.write_json(run.receipt, {"backend": "local", "handle": str(run.path)})

    found = status(run)

    assert (found.word, found.reason) == (
        "lost", "stages.jsonl holds nothing of this attempt, and no stage runner is at work",
    )  # fmt: skip


@pytest.mark.parametrize("handle", ["pod-1", "smoke-1", None, 5])
def test_a_run_of_another_machine_waits_for_its_stage_records(run, handle):
    outcome(run, "running")
    records.write_json(run.receipt, {"backend": "rented", "handle": run.id if handle == "smoke-1" else handle})

    assert status(run).word == "running"


def test_before_anything_started_it_is_created(run):
    assert status(run).word == "created"


@pytest.mark.parametrize(
    "content", ["{", '{"status": 7, "attempt": "x", "reason": [], "exit_code": "1"}', '{"status": "unheard of"}']
)
def test_a_damaged_outcome_is_replaced_by_what_the_runner_wrote(run, content):
    run.outcome.write_text(content)
    entered(run)
    records.append_line(run.stages, {"event": "exited", "exit_code": 0, "stage": "train"})

    assert status(run).word == "completed"


@pytest.mark.parametrize("line", [{"event": "exited", "exit_code": "many", "stage": 3, "reason": 4}, {"event": 5}])
def test_strange_lines_never_raise(run, line):
    records.append_line(run.stages, line)
    records.append_line(run.stages, {"event": "started", "stage": [], "pid": "x", "unix": "y"})

    assert status(run).word in ("created", "lost", "failed")


def test_every_exit_code_has_one_meaning():
    assert [verdict(code) for code in (0, 1, 2, 130, 143, 137)] == [
        "completed", "failed", "failed", "stopped", "stopped", "failed",
    ]  # fmt: skip


def test_a_pipe_in_place_of_the_stages_lines_is_named_and_the_status_still_told(run):
    outcome(run, "running")
    os.mkfifo(run.stages)

    now = status(run)

    assert now.word == "lost"
    assert "stages.jsonl: cannot be read: is not a regular file" in now.reason
