from __future__ import annotations

import os
import shutil
import signal

import pytest
from fakes import NoTrackers, RecordingView, ScriptedBackend

from lab.contracts import JobState
from lab.errors import LabError
from lab.jobs import Job, Stage
from lab.launch import follow, recording
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.status import status

RUNNING, FINISHED = JobState("running", "train"), JobState("finished", "train", 0)


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    records.write_json(run.config, {"schema": 1, "backend": "scripted"})
    recording.set_outcome(run, "created")
    return run


def execute(run, *script, view=None, refuses=None, attempt=1):
    backend = ScriptedBackend(*script, refuses=refuses)
    job = Job(run.id, (Stage("train", ("x",)),), "sha", attempt=attempt)
    return backend, follow.execute(run, job, backend, view or RecordingView(), NoTrackers())


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(follow, "POLL_SECONDS", 0.0)


@pytest.mark.parametrize(
    ("state", "word", "code"),
    [
        (JobState("finished", "train", 0), "completed", 0),
        (JobState("finished", "train", 1, "exit code 1"), "failed", 1),
        (JobState("finished", "train", 137, "killed"), "failed", 1),
        (JobState("finished", "train", 143, "ended by the time limit of 5 s (limits.hours)"), "stopped", 143),
        (JobState("lost", "train", None, "vanished"), "lost", 1),
        (JobState("finished"), "failed", 1),
    ],
)
def test_the_exit_record_decides_the_outcome_and_the_exit_code(run, state, word, code):
    _, ending = execute(run, (RUNNING, None), (state, None))

    outcome = records.read_json(run.outcome)
    assert (ending.word, ending.exit_code) == (word, code)
    assert (outcome["status"], outcome["reason"], outcome["exit_code"]) == (word, state.reason, state.exit_code)
    assert outcome["started"] <= outcome["ended"]


def test_everything_that_was_written_is_shown_once_the_last_lines_too(run):
    view = RecordingView()

    def last(run):
        records.append_line(run.metrics, {"step": 2})
        records.append_line(run.stages, {"event": "exited"})

    execute(
        run, (RUNNING, lambda run: records.append_line(run.metrics, {"step": 1})), (RUNNING, None), (FINISHED, last),
        view=view,
    )  # fmt: skip

    assert [line["step"] for line in view.metrics] == [1, 2]
    assert [line["event"] for line in view.stages] == ["exited"]
    assert view.closed


def test_only_the_stages_of_this_attempt_are_shown(run):
    view = RecordingView()
    for attempt in (1, 2):
        records.append_line(run.stages, {"event": "entered", "attempt": attempt})
        records.append_line(run.stages, {"event": "started", "stage": f"of {attempt}"})

    execute(run, (FINISHED, None), view=view, attempt=2)

    assert [line["stage"] for line in view.stages] == ["of 2"]


def test_the_receipt_is_kept_for_any_later_process(run):
    execute(run, (FINISHED, None))

    assert recording.read_receipt(run).handle == "handle-1"


def interrupt(number):
    return lambda run: os.kill(os.getpid(), number)


class SlowTrackers(NoTrackers):
    """Stands for trackers that are still at work when a signal arrives."""

    def __init__(self, number):
        self.number = number

    def finish(self, stopped):
        assert not stopped()
        os.kill(os.getpid(), self.number)
        assert stopped()


@pytest.mark.parametrize(
    ("number", "state", "code"),
    [
        (signal.SIGTERM, FINISHED, 143),
        (signal.SIGINT, FINISHED, 0),
        (signal.SIGTERM, JobState("finished", "train", 1), 1),
    ],
)
def test_a_signal_while_the_run_is_mirrored_ends_the_wait_and_not_the_command(run, number, state, code):
    backend, job = ScriptedBackend((state, None)), Job(run.id, (Stage("train", ("x",)),), "sha")

    ending = follow.execute(run, job, backend, RecordingView(), SlowTrackers(number))

    assert ending.exit_code == code
    assert records.read_json(run.outcome)["status"] == ending.word


def test_ctrl_c_once_asks_to_stop_and_is_exit_130(run):
    view = RecordingView()

    backend, ending = execute(
        run, (RUNNING, interrupt(signal.SIGINT)), (RUNNING, None), (JobState("finished", "train", 143), None), view=view
    )

    assert backend.calls == ["submit", "stop", "fetch"]
    assert (ending.word, ending.exit_code) == ("stopped", 130)
    assert "Ctrl-C again" in view.notices[0]


def test_ctrl_c_twice_ends_its_processes(run):
    twice = interrupt(signal.SIGINT)

    backend, ending = execute(
        run, (RUNNING, twice), (RUNNING, twice), (RUNNING, None), (JobState("finished", "train", 143), None)
    )

    assert backend.calls == ["submit", "stop", "delete"]
    assert ending.exit_code == 130


def test_more_ctrl_c_changes_nothing(run):
    again = interrupt(signal.SIGINT)

    backend, _ = execute(run, *[(RUNNING, again)] * 5, (JobState("finished", "train", 143), None))

    assert backend.calls == ["submit", "stop", "delete"]


def test_sigterm_asks_to_stop_and_is_exit_143(run):
    backend, ending = execute(
        run, (RUNNING, interrupt(signal.SIGTERM)), (RUNNING, None), (JobState("finished", "train", 143), None)
    )

    assert backend.calls == ["submit", "stop", "fetch"]
    assert ending.exit_code == 143


def test_a_run_that_completes_although_asked_to_stop_is_a_success(run):
    _, ending = execute(run, (RUNNING, interrupt(signal.SIGINT)), (FINISHED, None))

    assert (ending.word, ending.exit_code) == ("completed", 0)


def test_afterwards_ctrl_c_is_what_it_was_before(run):
    before = signal.getsignal(signal.SIGINT)

    execute(run, (FINISHED, None))

    assert signal.getsignal(signal.SIGINT) is before


def test_a_backend_that_refuses_leaves_a_failed_run_with_the_reason(run):
    with pytest.raises(LabError, match="no machine"):
        execute(run, refuses=LabError("no machine is to be had"))

    assert status(run).word == "failed"
    assert "no machine is to be had" in status(run).reason


def test_ctrl_c_while_it_is_being_submitted_is_recorded_as_stopped(run):
    with pytest.raises(KeyboardInterrupt):
        execute(run, refuses=KeyboardInterrupt())

    assert status(run).word == "stopped"


def test_records_that_cannot_be_fetched_for_a_while_end_nothing(run):
    view = RecordingView()
    backend = ScriptedBackend((RUNNING, None), (FINISHED, None))
    answers = iter([LabError("no answer")])

    def sometimes(receipt, run):
        error = next(answers, None)
        if error:
            raise error

    backend.records = sometimes
    ending = follow.execute(run, Job(run.id, (), "sha"), backend, view, NoTrackers())

    assert ending.word == "completed"
    assert view.notices == ["no answer (the run goes on)"]


def test_a_worker_that_was_killed_leaves_a_rebuilt_summary_and_no_temporary_file(run):
    def died(run):
        records.append_line(run.metrics, {"kind": "step", "step": 1, "loss": 2.5, "seconds": 1.0, "targets": 10})
        (run.path / ".summary.json.x.part").touch()

    execute(run, (RUNNING, died), (JobState("finished", "train", 137, "killed"), None))

    summary = records.read_json(run.summary)
    assert (summary["rebuilt"], summary["status"], summary["loss"]["last"]) == (True, "failed", 2.5)
    assert not list(run.path.glob(".*.part"))


def test_what_the_worker_said_of_its_failure_stands_in_the_outcome(run):
    def said(run):
        records.write_json(run.summary, {"status": "failed", "reason": "loss is NaN at step 5"})

    _, ending = execute(run, (RUNNING, said), (JobState("finished", "train", 1, "exit code 1"), None))

    assert ending.reason == "exit code 1: loss is NaN at step 5"
    assert "rebuilt" not in records.read_json(run.summary)


def test_a_job_without_steps_gets_no_summary(run):
    execute(run, (FINISHED, None))

    assert not run.summary.exists()


def test_a_later_attempt_says_so_and_starts_its_own_time(run):
    execute(run, (JobState("finished", "train", 1), None))
    first = records.read_json(run.outcome)

    execute(run, (FINISHED, None), attempt=2)
    second = records.read_json(run.outcome)

    assert (second["attempt"], second["status"]) == (2, "completed")
    assert second["started"] > first["started"]


def test_a_run_directory_that_disappears_ends_the_watch_and_asks_the_job_to_stop(run):
    backend = ScriptedBackend((RUNNING, lambda run: shutil.rmtree(run.path)), (RUNNING, None))
    job = Job(run.id, (Stage("train", ("x",)),), "sha")

    with pytest.raises(LabError, match="has disappeared"):
        follow.execute(run, job, backend, RecordingView(), NoTrackers())

    assert backend.calls == ["submit", "stop"]


@pytest.mark.parametrize("name", ["metrics.jsonl", "stages.jsonl"])
def test_a_pipe_in_place_of_what_is_followed_is_told_once_and_the_run_ends_as_it_did(run, name):
    view = RecordingView()
    os.mkfifo(run.path / name)

    _, ending = execute(run, (RUNNING, None), (RUNNING, None), (FINISHED, None), view=view)

    assert ending.word == "completed"
    assert [told for told in view.notices if name in told] == [
        f"{run.path / name}: cannot be read: is not a regular file (the run goes on)"
    ]


def test_a_summary_that_cannot_be_rebuilt_is_said_in_the_outcome(run):
    def wrecked(run):
        records.append_line(run.metrics, {"kind": "step", "step": 1, "loss": 1.0, "time": 1.0})
        os.mkfifo(run.stages)

    _, ending = execute(run, (JobState("finished", "train", 1, "exit code 1"), wrecked))

    assert ending.word == "failed"
    assert records.read_json(run.outcome)["reason"].startswith("exit code 1; no summary can be rebuilt: ")
