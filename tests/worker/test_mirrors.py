"""Trackers beside the worker: one last delivery within the patience, and never more than that."""

from __future__ import annotations

import sys
import time

import pytest
from tiny_run import tiny_experiment, tiny_run

from lab.runs.directory import RunDirectory
from lab.worker.assemble import parts_of
from lab.worker.mirrors import Mirrors, track_command, wanted


@pytest.fixture
def run(project, tmp_path):
    return RunDirectory.create(tmp_path, "tracked")


def command(line):
    """A process that runs the line of Python with the run's folder and whether it is live."""

    def of(run, name, *, live):
        return [sys.executable, "-S", "-c", f"import sys, time; path, name, live = sys.argv[1:]; {line}",
                str(run.path), name, str(live)]  # fmt: skip

    return of


def test_each_is_started_with_the_run_and_delivers_once_more_at_its_end(run):
    mirrors = Mirrors(run, ["one", "two"], command("open(f'{path}/{name}-{live}', 'w').close()"))

    mirrors.start()
    mirrors.finish()

    delivered = {path.name for path in run.path.iterdir() if path.name.endswith("False")}
    assert delivered == {"one-False", "two-False"}


def test_one_that_hangs_is_ended_and_said(run, caplog):
    mirrors = Mirrors(run, ["slow"], command("time.sleep(60)"))
    started = time.monotonic()

    mirrors.start()
    mirrors.finish(patience_seconds=0.2)

    assert time.monotonic() - started < 10
    assert f"slow: not all was sent; later: lab runs track {run.id} --to slow" in caplog.messages
    assert all(process.poll() is not None for process in mirrors._live)


def test_a_command_that_cannot_start_is_said_and_harms_nothing(run, caplog):
    mirrors = Mirrors(run, ["absent"], lambda run, name, *, live: ["/nonexistent/python"])

    mirrors.start()
    mirrors.finish()

    assert any(message.startswith("absent: not mirrored") for message in caplog.messages)


def test_only_those_meant_for_the_worker_with_their_key_are_started(project, tmp_path, monkeypatch, caplog):
    trackers = {"wandb": {"where": "worker"}, "mlflow": {}}
    parts = parts_of(tiny_run(tmp_path, tiny_experiment(trackers=trackers)))

    with caplog.at_level("INFO"):
        without = wanted(parts)
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)

    assert without == []
    assert "wandb: WANDB_API_KEY was not forwarded, so it is not mirrored from here" in caplog.messages
    assert wanted(parts) == ["wandb"]


def test_the_command_is_that_of_the_launch(run):
    assert track_command(run, "wandb", live=True)[1:] == [
        "-m", "lab", "runs", "track", str(run.path), "--to", "wandb", "--live",
    ]  # fmt: skip
