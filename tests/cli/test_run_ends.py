"""How `lab run` ends: each test is a real command, real processes and real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.runs import records
from lab.runs.directory import every
from lab.runs.status import attempt_lines, is_held, status
from lab.settings import read_settings

PATIENCE_SECONDS = 60
SAVES = "trap 'echo saved; exit 143' TERM; echo $$ > {run}/ready; while :; do sleep 0.02; done"
DEAF = "trap 'echo asked > {run}/asked' TERM; echo $$ > {run}/ready; while :; do sleep 0.02; done"
WAITS = "echo $$ > {run}/ready; while ! test -f {run}/go; do sleep 0.02; done; echo done"


def eventually(condition):
    patience = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < patience:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError("it never happened")


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Command:
    """`lab run` on one shell stage, with a terminal's session of its own."""

    def __init__(self, project, script, name="quick"):
        stage = f"[trackers]\nmlflow = false\n[[stages]]\nname = 'train'\nrun = ['sh', '-c', '''{script}''']\n"
        (project / "experiments" / f"{name}.toml").write_text(stage)
        command = [sys.executable, "-m", "lab", "run", name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self.name = name
        self.stage = int(eventually(lambda: self.written("ready")))

    @property
    def run(self):
        runs = [run for run in every(read_settings().runs_folder) if run.id.startswith(self.name)]
        return runs[-1] if runs else None

    def written(self, name):
        run = self.run
        file = run.path / name if run else None
        return file.read_text() if file and file.is_file() else ""

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, output.decode()

    def runner(self):
        return attempt_lines(self.run)[0]["pid"]


@pytest.fixture
def start(project):
    started = []

    def start(script, **more):
        started.append(Command(project, script, **more))
        return started[-1]

    yield start
    for command in started:
        if command.run is not None and is_held(command.run.stages):
            os.kill(command.runner(), signal.SIGQUIT)
        command.process.kill()
        command.process.communicate()


def test_ctrl_c_lets_the_stage_save_and_is_130(start):
    command = start(SAVES)

    command.signal(signal.SIGINT)
    code, output = command.end()

    assert code == 130
    assert "stopped: asked to stop" in output
    assert f"lab resume {command.run.id}" in output
    assert (command.run.logs / "train.log").read_text() == "saved\n"
    assert records.read_json(command.run.outcome)["status"] == "stopped"


def test_ctrl_c_twice_ends_at_once_and_is_130(start):
    command = start(DEAF)

    command.signal(signal.SIGINT)
    eventually(lambda: command.written("asked"))
    command.signal(signal.SIGINT)
    code, output = command.end()

    assert code == 130
    assert "ended at once" in output
    assert not is_alive(command.stage)
    assert status(command.run).word == "stopped"


def test_sigterm_lets_the_stage_save_and_is_143(start):
    command = start(SAVES)

    command.signal(signal.SIGTERM)

    assert command.end()[0] == 143
    assert status(command.run).word == "stopped"


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_a_controller_that_vanishes_ends_nothing_and_the_record_tells_the_end(start, lab, number):
    command = start(WAITS)

    command.signal(number)
    command.end()
    meanwhile = status(command.run).word
    (command.run.path / "go").touch()
    eventually(lambda: not is_held(command.run.stages))

    assert meanwhile == "running"
    assert (status(command.run).word, status(command.run).recorded) == ("completed", False)
    assert "completed" in lab("runs").out
    assert lab("runs", "logs", command.run.id).out == "done\n"
    assert lab("runs", "show", command.run.id).code == 0


@pytest.mark.parametrize(("options", "told", "saved"), [((), "asked to stop", "saved\n"), (("--now",), "ended", "")])
def test_a_run_is_stopped_from_another_terminal(start, lab, options, told, saved):
    command = start(SAVES)

    done = lab("runs", "stop", command.run.id, *options)
    code, _ = command.end()

    assert done.out.startswith(f"{command.run.id}: {told}")
    assert code == 143
    assert status(command.run).word == "stopped"
    assert (command.run.logs / "train.log").read_text() == saved


def test_a_killed_worker_is_a_failed_run(start):
    command = start(WAITS)

    os.kill(command.stage, signal.SIGKILL)
    code, output = command.end()

    assert code == 1
    assert "out of memory" in output
    assert status(command.run).word == "failed"


def test_a_killed_runner_is_a_lost_run_that_says_so(start):
    command = start(WAITS)

    os.kill(command.runner(), signal.SIGKILL)
    code, output = command.end()

    assert code == 1
    assert "lost: the stage runner vanished during train" in output
    eventually(lambda: not is_alive(command.stage))


@pytest.mark.parametrize("harm", ["rm {run}/stages.jsonl", "rm -r {run}"])
def test_a_run_that_destroys_its_own_records_ends_as_lost(start, harm):
    command = start(WAITS + "; " + harm)
    (command.run.path / "go").touch()

    code, output = command.end()

    assert code == 1
    assert "stages.jsonl holds nothing of this attempt" in output or "has disappeared" in output


def test_two_runs_at_once_do_not_meet(start):
    first, second = start(WAITS, name="one"), start(WAITS, name="two")

    for command in (first, second):
        (command.run.path / "go").touch()

    assert [command.end()[0] for command in (first, second)] == [0, 0]
    assert [status(command.run).word for command in (first, second)] == ["completed"] * 2


def test_a_stopped_run_is_resumed_as_the_next_attempt_with_its_own_code(start, lab, project):
    command = start("if test -f {run}/twice; then echo again; else touch {run}/twice; " + SAVES + "; fi")
    command.signal(signal.SIGTERM)
    command.end()

    done = lab("resume", command.run.id, "--as-recorded")

    outcome = records.read_json(command.run.outcome)
    assert done.code == 0
    assert (outcome["status"], outcome["attempt"]) == ("completed", 2)
    assert (command.run.logs / "train.log").read_text() == "saved\nagain\n"
    assert records.read_json(command.run.earlier(1, command.run.outcome))["status"] == "stopped"


def test_resuming_a_running_run_is_refused_and_changes_nothing(start, lab):
    command = start(WAITS)

    refused = lab("resume", command.run.id)

    assert refused.code == 2
    assert "is still running" in refused.err
    assert records.read_json(command.run.outcome)["attempt"] == 1
    assert not command.run.attempts.exists()
