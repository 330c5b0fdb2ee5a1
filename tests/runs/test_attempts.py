from __future__ import annotations

import os

import pytest

from lab.errors import LabError
from lab.runs import attempts, records, regular
from lab.runs.directory import RunDirectory


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    lines = [
        {"kind": "evaluation", "step": 0}, {"kind": "step", "step": 1}, {"kind": "step", "step": 2},
        {"kind": "evaluation", "step": 2}, {"kind": "step", "step": 3},
    ]  # fmt: skip
    for line in lines:
        records.append_line(run.metrics, line)
    return run


def steps(path):
    return [(line["kind"], line["step"]) for line in records.read_lines(path)]


def test_lines_after_the_checkpoint_move_aside_and_none_is_lost(run):
    before = run.metrics.read_bytes()

    moved = attempts.rewind_metrics(run, attempt=1, step=2)

    assert moved == 1
    assert steps(run.metrics)[-1] == ("evaluation", 2)
    assert run.metrics.read_bytes() + run.earlier_metrics(1).read_bytes() == before


def test_a_torn_end_moves_with_the_rest(run):
    with run.metrics.open("ab") as file:
        file.write(b'{"kind": "step", "st')

    attempts.rewind_metrics(run, attempt=1, step=3)

    assert steps(run.metrics)[-1] == ("step", 3)
    assert run.earlier_metrics(1).read_bytes() == b'{"kind": "step", "st'


def test_without_a_checkpoint_everything_moves(run):
    assert attempts.rewind_metrics(run, attempt=1, step=-1) == 5
    assert run.metrics.read_bytes() == b""


def test_nothing_to_move_changes_nothing(run):
    assert attempts.rewind_metrics(run, attempt=1, step=3) == 0
    assert not run.attempts.exists()


def test_killed_between_both_writes_it_can_be_repeated(run, monkeypatch):
    replacing = records.replacing

    def killed(path):
        if path == run.metrics:
            raise KeyboardInterrupt
        return replacing(path)

    monkeypatch.setattr(records, "replacing", killed)
    with pytest.raises(KeyboardInterrupt):
        attempts.rewind_metrics(run, attempt=1, step=2)
    monkeypatch.setattr(records, "replacing", replacing)
    attempts.rewind_metrics(run, attempt=1, step=2)

    assert steps(run.earlier_metrics(1)) == [("step", 3)]
    assert steps(run.metrics)[-1] == ("evaluation", 2)


def test_the_figures_of_an_attempt_are_kept_and_no_longer_stand_for_the_run(run):
    records.write_json(run.summary, {"status": "stopped"})
    records.write_json(run.outcome, {"status": "stopped"})

    attempts.put_aside(run, 1)

    assert not run.summary.exists()
    assert records.read_json(run.earlier(1, run.summary)) == {"status": "stopped"}
    assert records.read_json(run.earlier(1, run.outcome)) == {"status": "stopped"}


def test_a_line_too_long_to_be_held_is_moved_whole(run, monkeypatch):
    monkeypatch.setattr(regular, "LONGEST_LINE_BYTES", 64)
    before = run.metrics.read_bytes()
    long = b'{"kind": "step", "step": 1, "text": "' + b"x" * 1000 + b'"}\n'
    run.metrics.write_bytes(before + long)

    moved = attempts.rewind_metrics(run, attempt=1, step=3)

    assert moved == 1
    assert (run.metrics.read_bytes(), run.earlier_metrics(1).read_bytes()) == (before, long)


@pytest.mark.parametrize("name", ["metrics", "summary", "environment", "outcome"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_named_instead_of_moved(run, name, make):
    path = getattr(run, name)
    path.unlink(missing_ok=True)
    make(path)

    with pytest.raises(LabError, match=rf"{path.name}: cannot be read: is not a regular file"):
        attempts.rewind_metrics(run, 1, 2) if name == "metrics" else attempts.put_aside(run, 1)

    assert not list(run.attempts.glob("*"))
