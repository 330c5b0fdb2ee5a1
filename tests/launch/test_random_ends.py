"""A long walk: whoever is killed and whenever, the record says what happened and the run can go on."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from lab.runs import records
from lab.runs.directory import every
from lab.runs.status import attempt_lines, is_held, status
from lab.settings import read_settings

PATIENCE_SECONDS = 60
STAGES = 3
SCRIPT = "trap 'exit 143' TERM; for i in 1 2 3 4 5 6 7 8; do echo $i; echo {run} > {run}/out.part; sleep 0.02; done"


def stage(number):
    return f'[[stages]]\nname = "stage{number}"\nrun = ["sh", "-c", "{SCRIPT}"]\n'


def pids_of(run, victim):
    """The process to kill: the stage runner, or the stage that runs now."""
    lines = attempt_lines(run)
    event = "entered" if victim == "runner" else "started"
    return [line["pid"] for line in lines if line.get("event") == event and isinstance(line.get("pid"), int)]


@pytest.fixture
def walk(project):
    (project / "experiments" / "walk.toml").write_text(
        "[trackers]\nmlflow = false\n" + "".join(stage(number) for number in range(STAGES))
    )
    return [sys.executable, "-m", "lab", "run", "walk", "--quiet"]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_kill_9_at_any_moment_leaves_a_record_that_tells_it_and_a_run_that_goes_on(walk, lab, seed):
    chance = random.Random(seed)
    victim = chance.choice(["controller", "runner", "stage"])
    with subprocess.Popen(walk, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as controller:
        time.sleep(chance.uniform(0.0, 2.0))  # the moment itself is the test
        runs = every(read_settings().runs_folder)
        victims = pids_of(runs[-1], victim) if runs and victim != "controller" else [controller.pid]
        for pid in victims[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        controller.wait(PATIENCE_SECONDS)
    runs = every(read_settings().runs_folder)
    wait_for_end(runs)

    answers = [lab("runs"), lab("runs", "show"), lab("runs", "logs"), lab("report")] if runs else [lab("runs")]
    if runs and status(runs[-1]).word != "completed":
        answers.append(lab("resume", "latest", "--as-recorded"))
        wait_for_end(runs)

    for answer in answers:
        assert "Traceback" not in answer.err
        assert "bug in lab" not in answer.err
    for run in runs:
        assert status(run).word == "completed"
        assert not list(run.path.glob(".*.part"))
        ended = [line["stage"] for line in attempt_lines(run) if line.get("event") == "ended"]
        assert ended == [f"stage{number}" for number in range(STAGES)]


def wait_for_end(runs):
    """Until no stage runner and no stage that outlived one is at work."""
    patience = time.monotonic() + PATIENCE_SECONDS
    while any(is_held(run.stages) or status(run).word == "running" for run in runs):
        assert time.monotonic() < patience, [records.read_json(run.outcome) for run in runs]
        time.sleep(0.02)
