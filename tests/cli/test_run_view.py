from __future__ import annotations

import io

import pytest
from rich.console import Console

from lab.cli import run_view
from lab.cli.run_figures import Training
from lab.cli.run_view import Lines, Live, Silent
from lab.runs.directory import RunDirectory


def step(number, time=None, loss=2.0, seconds=0.5, targets=100):
    moment = float(number) if time is None else time
    return {"kind": "step", "step": number, "time": moment, "loss": loss, "seconds": seconds, "targets": targets}


def evaluation(number, loss):
    return {"kind": "evaluation", "step": number, "loss": loss}


def heard(*lines, planned=10):
    training = Training(planned)
    training.begin({"event": "started", "stage": "train"})
    for line in lines:
        training.hear(line)
    return training


def test_speed_is_tokens_over_the_time_of_the_steps_alone():
    assert heard(step(1), step(2, targets=300)).tokens_per_second == 400.0


def test_time_left_is_by_the_wall_clock():
    assert heard(step(1), step(2), step(3)).seconds_left == 7.0


def test_a_pause_between_two_attempts_makes_nothing_look_slow():
    assert heard(step(1), step(2), step(3, time=9000.0), step(4, time=9001.0)).seconds_left < 20


def test_steps_that_were_written_together_still_took_their_time():
    assert heard(step(1, time=5.0), step(2, time=5.0)).seconds_left == 4.0


def test_before_the_second_step_nobody_knows_how_long_it_takes():
    assert heard(step(1)).seconds_left is None
    assert heard(step(1), step(2), planned=None).seconds_left is None


@pytest.mark.parametrize(
    "line", [{}, {"kind": "step"}, {"step": "x", "loss": None}, {"kind": [], "step": 1, "loss": 1}]
)
def test_strange_lines_are_passed_over(line):
    assert heard(line).step == 0


def test_a_new_attempt_knows_nothing_of_the_one_before():
    training = heard(step(1, time=5.0), step(2, time=6.0), evaluation(2, 1.5))

    training.begin({"event": "started", "stage": "train", "unix": 100.0})
    old, new = training.hear(step(2, time=6.0)), training.hear(step(3, time=101.0))

    assert (old, new, training.step, training.evaluation) == (False, True, 3, None)
    assert training.words() == ["loss 2.0000", "200 tokens/s"]


def printed(capsys, view, *calls):
    for name, line in calls:
        getattr(view, name)(line)
    return capsys.readouterr().err.splitlines()


def test_in_a_log_stages_and_evaluations_are_lines_and_steps_now_and_then(capsys):
    lines = printed(
        capsys, Lines(3),
        ("stage", {"event": "started", "stage": "train"}),
        *(("metric", step(number)) for number in (1, 2, 3)),
        ("metric", evaluation(3, 1.5)),
        ("stage", {"event": "ended", "stage": "train", "seconds": 75.2, "exit_code": 1, "reason": "exit code 1"}),
    )  # fmt: skip

    assert lines == [
        "train: started",
        "step 1/3: loss 2.0000, 200 tokens/s",
        "step 3/3: loss 2.0000, 200 tokens/s",
        "evaluation after step 3: 1.5000",
        "train: 1 min 15 s  exit code 1",
    ]


def test_silent_tells_only_what_a_person_must_know(capsys):
    lines = printed(capsys, Silent(), ("stage", {}), ("metric", step(1)), ("notice", "asked to stop"))

    assert lines == ["asked to stop"]


class Terminal:
    """A terminal of a given width that remembers what was drawn last."""

    def __init__(self, monkeypatch, width):
        self.width = width
        console = Console(
            file=io.StringIO(), width=width, force_terminal=True, markup=False, emoji=False, highlight=False
        )
        monkeypatch.setattr(run_view, "console", lambda stderr=False: console)

    def draws(self, live):
        console = Console(width=self.width, markup=False, emoji=False)
        with console.capture() as capture:
            console.print(live._picture())
        return [line.rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "smoke")


@pytest.mark.parametrize("width", [60, 100, 200])
def test_in_a_terminal_every_stage_has_one_line_however_narrow(run, monkeypatch, width):
    terminal = Terminal(monkeypatch, width)
    live = Live(run, 100)
    live.stage({"event": "started", "stage": "prepare"})
    live.stage({"event": "ended", "stage": "prepare", "seconds": 3.21, "exit_code": 0})
    live.stage({"event": "started", "stage": "train"})
    for number in range(1, 60):
        live.metric(step(number))
    live.metric(evaluation(50, 1.25))
    lines = terminal.draws(live)
    live.close()

    assert len(lines) == 2
    assert "step 59/100" in lines[1]
    assert lines[0].split() == ["✓", "prepare", "3.2", "s"]
    assert "train" in lines[1]
    assert all(len(line) <= width for line in lines)


def test_the_figures_stand_beside_the_bar(run, monkeypatch):
    terminal = Terminal(monkeypatch, 140)
    live = Live(run, 100)
    live.stage({"event": "started", "stage": "train"})
    for number in range(1, 41):
        live.metric(step(number))
    [line] = terminal.draws(live)
    live.close()

    assert "step 40/100  loss 2.0000  200 tokens/s  1 min left" in line


def test_a_stage_without_steps_shows_what_it_printed_last(run, monkeypatch):
    terminal = Terminal(monkeypatch, 100)
    live = Live(run, None)
    live.stage({"event": "started", "stage": "prepare"})
    (run.logs / "prepare.log").write_bytes(b"first\n\x1b[31madmitted 100\rof 200\n\n")
    [line] = terminal.draws(live)
    live.close()

    assert line.endswith("of 200")


@pytest.mark.parametrize(("code", "mark"), [(0, "✓"), (1, "✗"), (143, "■"), (None, "✗")])
def test_how_a_stage_ended_is_a_sign_and_not_only_a_colour(run, monkeypatch, code, mark):
    terminal = Terminal(monkeypatch, 100)
    live = Live(run, None)
    live.stage({"event": "ended", "stage": "train", "seconds": 1.0, "exit_code": code, "reason": "r"})
    [line] = terminal.draws(live)
    live.close()

    assert line.startswith(mark)


RESUMED = (
    ("metric", step(4, time=50.0)),
    ("stage", {"event": "started", "stage": "preflight", "unix": 100.0}),
    ("metric", step(5, time=60.0)),
    ("metric", evaluation(4, 1.5) | {"time": 61.0}),
)


def test_in_a_log_a_resumed_run_tells_no_step_of_the_attempt_before(capsys):
    lines = printed(
        capsys, Lines(9), *RESUMED,
        ("stage", {"event": "started", "stage": "train", "unix": 110.0}), ("metric", step(5, time=111.0)),
    )  # fmt: skip

    assert lines == ["preflight: started", "train: started", "step 5/9: loss 2.0000, 200 tokens/s"]


def test_in_a_terminal_a_resumed_run_shows_what_its_preflight_says(run, monkeypatch):
    terminal = Terminal(monkeypatch, 100)
    live = Live(run, 9)
    (run.logs / "preflight.log").write_text("checking kernels\n")
    for name, line in RESUMED:
        getattr(live, name)(line)
    [line] = terminal.draws(live)
    live.close()

    assert line.endswith("checking kernels")


def test_a_stage_after_the_training_shows_what_it_says_itself(run, monkeypatch):
    terminal = Terminal(monkeypatch, 100)
    live = Live(run, 2)
    (run.logs / "export.log").write_text("exporting\n")
    live.stage({"event": "started", "stage": "train"})
    live.metric(step(2))
    live.stage({"event": "ended", "stage": "train", "seconds": 1.0, "exit_code": 0})
    live.stage({"event": "started", "stage": "export"})
    *_, line = terminal.draws(live)
    live.close()

    assert line.endswith("exporting")


def test_an_evaluation_is_told_when_it_comes_and_not_with_every_step_after_it(capsys):
    lines = printed(
        capsys, Lines(9), ("stage", {"event": "started", "stage": "train"}), ("metric", evaluation(1, 1.5)),
        ("metric", step(9)),
    )  # fmt: skip

    assert lines[1:] == ["evaluation after step 1: 1.5000", "step 9/9: loss 2.0000, 200 tokens/s"]


def test_in_a_terminal_an_evaluation_names_its_step(run, monkeypatch):
    terminal = Terminal(monkeypatch, 160)
    live = Live(run, 100)
    live.stage({"event": "started", "stage": "train"})
    live.metric(evaluation(1, 1.25))
    live.metric(step(60))
    [line] = terminal.draws(live)
    live.close()

    assert line.endswith("evaluation 1.2500 after step 1")
