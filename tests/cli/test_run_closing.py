from __future__ import annotations

import os

import pytest

from lab.cli import run_closing
from lab.launch.follow import Ending
from lab.runs import records
from lab.runs.directory import RunDirectory

NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}
FAILED = Ending("failed", "exit code 1", 1, [])
COMPLETED = Ending("completed", "", 0, [])


@pytest.fixture
def run(tmp_path):
    run = RunDirectory.create(tmp_path, "smoke")
    records.append_line(run.stages, {"stage": "train", "event": "started"})
    records.append_line(run.stages, {"stage": "train", "event": "ended", "exit_code": 1})
    (run.logs / "train.log").write_text("".join(f"said {number}\n" for number in range(20)))
    return run


@pytest.mark.parametrize("ending", [FAILED, COMPLETED], ids=["failed", "completed"])
def test_of_a_log_larger_than_the_memory_the_end_is_shown(run, ending, capsys):
    os.truncate(run.logs / "train.log", 30 << 30)
    with (run.logs / "train.log").open("ab") as log:
        log.write(b"\nlast words\n")

    run_closing.show(run, ending, None, {})

    assert "last words" in capsys.readouterr().out


def test_what_stands_before_the_shown_end_of_a_log_is_said_to_be_left_out(run, capsys):
    run_closing.show(run, FAILED, None, {})

    out = capsys.readouterr().out
    assert "train.log, without its first 35 bytes" in out
    assert ("said 4\n" in out, "said 5\n" in out) == (False, True)


@pytest.mark.parametrize("ending", [FAILED, COMPLETED], ids=["failed", "completed"])
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize("name", ["logs/train.log", "stages.jsonl", "environment.json", "summary.json", "cost.json"])
def test_what_is_no_file_is_named_and_the_rest_of_the_closing_stays(run, name, make, ending, capsys):
    (run.path / name).unlink(missing_ok=True)
    make(run.path / name)

    run_closing.show(run, ending, None, {})

    printed = capsys.readouterr()
    assert f"lab runs logs {run.id}" in printed.out or f"lab runs show {run.id}" in printed.out
    assert "is not a regular file" in printed.out + printed.err


@pytest.mark.parametrize(
    ("steps", "told"), [(1, ("10.0438", "over 1 step")), (2, ("11.0000 -> 10.0438", "over 2 steps"))]
)
def test_a_loss_of_one_step_went_nowhere(steps, told):
    first = 11.0 if steps > 1 else 10.0438
    summary = {"steps": steps, "loss": {"first": first, "last": 10.0438}}

    assert [(value, meaning) for name, value, meaning in run_closing.figures_of(summary) if name == "loss"] == [told]


@pytest.mark.parametrize(
    ("status", "reason", "told"),
    [
        ("completed", "the loop ended after 1 of 4 steps", "the loop ended after 1 of 4 steps"),
        ("completed", "", None),
        ("failed", "RuntimeError: x", None),  # told above, as the run's reason
    ],
)
def test_a_loop_that_ended_early_is_told_of_a_run_that_completed(status, reason, told):
    rows = {name: value for name, value, _ in run_closing.figures_of({"status": status, "reason": reason})}

    assert rows.get("ended early") == told


@pytest.mark.parametrize(("percent", "told"), [(61.4, "61 %"), (24.9, ""), (None, ""), ("x", "")])
def test_a_machine_that_others_kept_busy_is_told_beside_the_speed(percent, told):
    rows = {name: value for name, value, _ in run_closing.figures_of({"measured": {"others_percent": percent}})}

    assert rows.get("busy machine", "") == told


def test_a_resumed_run_that_fails_as_before_shows_its_error_once(run, capsys):
    log = run.logs / "train.log"
    log.write_text("Error: no such file\n")
    records.append_line(run.stages, {"event": "entered", "attempt": 2})
    records.append_line(run.stages, {"stage": "train", "event": "started", "log_start": log.stat().st_size})
    with log.open("a") as file:
        file.write("Error: no such file\n")

    run_closing.show(run, FAILED, None, {})

    assert capsys.readouterr().out.count("Error: no such file") == 1


@pytest.mark.parametrize("start", [-1, 10**6, "x", None])
def test_a_log_of_which_no_start_is_known_is_shown_to_its_end(run, start, capsys):
    records.append_line(run.stages, {"stage": "train", "event": "started", "log_start": start})

    run_closing.show(run, FAILED, None, {})

    assert "said 19\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("failed", "lab runs logs {run}   lab resume {run} (once it is mended)"),
        ("stopped", "lab resume {run}"),
        ("lost", "lab resume {run}"),
        ("completed", "lab runs show {run}   lab compare {run} OTHER"),
    ],
)
def test_what_to_type_next_is_told_by_how_the_run_ended(run, word, told, capsys):
    run_closing.show(run, Ending(word, "", 1, []), None, {})

    assert capsys.readouterr().out.splitlines()[-1] == f"Next  {told.format(run=run.id)}"
