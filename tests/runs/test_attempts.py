from __future__ import annotations

import pytest

from lab.runs import attempts, records
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
    write = records.write_bytes

    def killed(path, content):
        if path == run.metrics:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(records, "write_bytes", killed)
    with pytest.raises(KeyboardInterrupt):
        attempts.rewind_metrics(run, attempt=1, step=2)
    monkeypatch.setattr(records, "write_bytes", write)
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
