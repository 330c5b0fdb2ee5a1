from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lab.experiment import Experiment
from lab.here import remembered
from lab.launch import track
from lab.launch.track import Trackers, wanted
from lab.plugins import Plugins
from lab.runs import records
from lab.runs.directory import RunDirectory

STAGES = {"name": "x", "stages": [{"name": "a", "run": ["true"]}]}


class Tracker:
    """Stands for the command that mirrors a run: any Python text."""

    def __init__(self, monkeypatch, text):
        self.started = []
        popen = subprocess.Popen

        def start(command, **more):
            self.started.append((command, more))
            return popen([sys.executable, "-I", "-S", "-c", text], **more)

        monkeypatch.setattr(track.subprocess, "Popen", start)


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "smoke")


def follow(run, patience_seconds=20.0, variables=None):
    told = []
    trackers = Trackers(run, ("mlflow",), told.append, variables or {})
    trackers.start()
    trackers.finish(patience_seconds=patience_seconds)
    trackers.tend()
    return trackers, told


def test_a_tracker_that_succeeds_leaves_its_link(run, monkeypatch):
    tracker = Tracker(monkeypatch, 'print(\'{"link": "http://x"}\')')

    trackers, told = follow(run)

    assert trackers.links == {"mlflow": "http://x"}
    assert told == []
    assert next(records.read_lines(run.tracking))["synced"]
    command, options = tracker.started[0]
    assert command[1:] == ["-m", "lab", "runs", "track", str(run.path), "--to", "mlflow", "--live", "--json"]
    assert options["start_new_session"]


def test_a_tracker_looks_for_the_project_where_lab_was_started(run, monkeypatch, tmp_path):
    Tracker(monkeypatch, "import json, os; print(json.dumps({'link': os.getcwd()}))")
    monkeypatch.chdir(tmp_path)

    with remembered():
        os.chdir("/")  # as a backend may
        trackers, _ = follow(run)

    assert trackers.links == {"mlflow": str(tmp_path)}


def test_a_tracker_that_fails_is_told_once_with_the_reason_and_the_way_to_repeat_it(run, monkeypatch):
    Tracker(monkeypatch, "import sys; print('noise', file=sys.stderr); sys.exit('Error: the server said no')")

    _, told = follow(run)

    assert told == [
        f"mlflow: the server said no (the run is complete without it; later: lab runs track {run.id} --to mlflow)"
    ]
    assert next(records.read_lines(run.tracking)) | {"synced": False} == next(records.read_lines(run.tracking))


def test_a_tracker_that_takes_too_long_is_ended(run, monkeypatch):
    Tracker(monkeypatch, "import time; time.sleep(1000)")

    _, told = follow(run, patience_seconds=0.05)

    assert "took longer than 0.05 s" in told[-1]


def test_who_is_asked_to_stop_leaves_a_mirror_to_itself_and_says_what_to_do_if_it_ends_too(run, monkeypatch):
    Tracker(monkeypatch, "import time; time.sleep(1000)")
    told = []
    trackers = Trackers(run, ("mlflow",), told.append)
    trackers.start()
    [tracking] = trackers._running

    trackers.finish(lambda: True)

    still_there = tracking.process.poll()
    tracking.process.kill()
    tracking.process.wait()
    tracking.output.close()
    tracking.errors.close()
    assert still_there is None
    again = f"lab runs track {run.id} --to mlflow"
    assert told == [f"mlflow: goes on by itself (should that be ended too: {again})"]


def test_a_slow_mirror_says_what_is_waited_for(run, monkeypatch):
    monkeypatch.setattr(track, "SOON_SECONDS", 0.01)
    Tracker(monkeypatch, "import sys; sys.stdin.close(); import time; time.sleep(0.2); print('{}')")

    _, told = follow(run)

    assert told == ["mirroring into mlflow; Ctrl-C leaves it to itself"]


def test_a_secret_in_what_a_tracker_says_is_covered(run, monkeypatch):
    Tracker(monkeypatch, "import os, sys; sys.exit('Error: bad key ' + os.environ['WANDB_API_KEY'])")

    _, told = follow(run, variables={"WANDB_API_KEY": "planted-value"})

    assert "bad key [hidden]" in told[0]
    assert b"planted" not in run.tracking.read_bytes()


def test_a_tracker_that_cannot_be_started_harms_nothing(run, monkeypatch):
    def refuse(*_, **__):
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(track.subprocess, "Popen", refuse)

    _, told = follow(run)

    assert "Cannot allocate memory" in told[0]


PLUGIN = """
from lab import Part, hookimpl

@hookimpl
def trackers():
    return [Part("mirror", target="lab_mirror:Mirror"), Part("needy", target="lab_mirror:Mirror", extra="needy")]
"""


@pytest.fixture
def plugins(install_plugin, monkeypatch):
    install_plugin("mirror", PLUGIN)
    monkeypatch.setattr(track, "DEFAULT", ("mirror",))
    return Plugins()


@pytest.mark.parametrize(
    ("trackers", "names"),
    [
        ({}, ("mirror",)),
        ({"mirror": False}, ()),
        ({"mirror": {"where": "worker"}}, ()),
        ({"mirror": True}, ("mirror",)),
    ],
)  # fmt: skip
def test_the_default_tracker_is_on_unless_the_experiment_says_no(plugins, trackers, names):
    assert wanted(Experiment.model_validate({**STAGES, "trackers": trackers}), plugins, pytest.fail) == names


def test_a_default_tracker_that_is_not_installed_is_passed_over_in_silence(plugins, monkeypatch):
    monkeypatch.setattr(track, "DEFAULT", ("unheard-of",))

    assert wanted(Experiment.model_validate(STAGES), plugins, pytest.fail) == ()


def test_a_tracker_whose_library_is_missing_is_told(plugins, monkeypatch):
    monkeypatch.setattr(track.needs, "missing", lambda plugin, part: ("mirrorlib",) if part.extra else ())
    told = []

    names = wanted(Experiment.model_validate({**STAGES, "trackers": {"needy": {}}}), plugins, told.append)

    assert names == ("mirror",)
    assert told == ["needy: not mirrored, mirrorlib is not installed"]
