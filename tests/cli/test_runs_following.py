from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from lab.cli import run_view, runs_following
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.settings import read_settings


@pytest.fixture
def run(project):
    run = RunDirectory(read_settings().runs_folder / "smoke-20261201-0915-aaaa")
    (run.path / "logs").mkdir(parents=True)
    experiment = {"name": "smoke", "train": {"steps": 4}}
    records.write_json(run.config, {"schema": 1, "backend": "local", "experiment": experiment})
    records.write_json(run.outcome, {"status": "running", "attempt": 1})
    return run


def step(run, number, **values):
    line = {"kind": "step", "step": number, "time": float(number), "loss": 2.0, "seconds": 0.5, "targets": 100}
    records.append_line(run.metrics, line | {"flops": 1e12, "allocated_bytes": 2**30, "reserved_bytes": 2**31} | values)


def started(run):
    records.append_line(run.stages, {"stage": "train", "event": "started"})


class Moments:
    """Stands for the pauses between two looks: each brings what the run wrote meanwhile."""

    def __init__(self, monkeypatch, *happens):
        self.happens = list(happens)
        monkeypatch.setattr(runs_following.time, "sleep", lambda seconds: self.happens.pop(0)())


def ended(run, word="completed"):
    code = {"completed": 0}.get(word, 1)
    records.append_line(run.stages, {"stage": "train", "event": "ended", "seconds": 2.0, "exit_code": code})
    records.write_json(run.outcome, {"status": word, "attempt": 1, "exit_code": code})


def test_a_run_is_watched_until_it_has_ended_and_its_outcome_is_shown(lab, run, monkeypatch):
    started(run)
    moments = Moments(monkeypatch, lambda: step(run, 1), lambda: (step(run, 4), ended(run)))

    done = lab("runs", "show", "latest", "--follow")

    assert done.code == 0
    assert done.err.splitlines() == [
        "train: started",
        "step 1/4: loss 2.0000, 200 tokens/s",
        "step 4/4: loss 2.0000, 200 tokens/s",
        "train: 2.0 s",
    ]
    assert done.out.startswith("smoke-20261201-0915-aaaa  completed")
    assert moments.happens == []


def test_a_run_that_does_not_complete_ends_the_watching_with_one(lab, run, monkeypatch):
    Moments(monkeypatch, lambda: ended(run, "failed"))

    done = lab("runs", "show", "--follow", "--json")

    assert done.code == 1
    assert json.loads(done.out)["status"]["word"] == "failed"
    assert done.err == ""


def test_a_run_that_has_ended_is_shown_at_once(lab, run):
    ended(run)

    assert lab("runs", "show", "--follow").code == 0


def test_ctrl_c_ends_the_watching_and_not_the_run(lab, run, monkeypatch):
    def interrupt():
        raise KeyboardInterrupt

    Moments(monkeypatch, interrupt)

    done = lab("runs", "show", "--follow")

    assert done.code == 130
    assert "goes on without being watched" in done.err
    assert records.read_json(run.outcome)["status"] == "running"


def test_only_the_latest_attempt_is_shown(lab, run, monkeypatch):
    records.append_line(run.stages, {"event": "entered", "attempt": 1})
    records.append_line(run.stages, {"stage": "old", "event": "started"})
    records.append_line(run.stages, {"event": "entered", "attempt": 2})
    started(run)
    records.write_json(run.outcome, {"status": "completed", "attempt": 2})

    assert lab("runs", "show", "--follow").err == "train: started\n"


@pytest.fixture
def screen(run, monkeypatch):
    def picture(width=120):
        out = io.StringIO()
        monkeypatch.setattr(run_view, "console", lambda stderr: Console(file=out, width=width, force_terminal=False))
        view = runs_following.Screen(run, 4)
        for line in records.read_lines(run.stages):
            view.stage(line)
        for line in records.read_lines(run.metrics):
            view.metric(line)
        shown = view._picture()
        view.close()
        with view._console.capture() as capture:
            view._console.print(shown)
        return capture.get()

    return picture


def test_the_screen_shows_every_figure_of_a_run_at_work(run, screen):
    records.write_json(run.environment, {"peak": {"flops": 8e12}})
    records.write_json(run.cost, {"dollars": 0.25, "dollars_per_hour": 3.0})
    records.write_json(run.resource, {"status": "running", "machine": "pod-1"})
    started(run)
    step(run, 1, warmup=True, seconds=5.0, allocated_bytes=2**32)
    step(run, 2)
    records.append_line(run.metrics, {"kind": "evaluation", "step": 2, "loss": 2.5})

    shown = screen()

    for words in (
        "smoke-20261201-0915-aaaa  running", "step 2/4", "6 s left", "loss", "2.0000", "2.5000", "36 tokens/s",
        "25.00 %", "4.00 GiB", "$0.2500", "at $3.0000 an hour", "pod-1",
    ):  # fmt: skip
        assert words in shown


def test_on_a_narrow_screen_what_a_figure_counts_stays_below_itself(run, screen):
    records.write_json(run.environment, {"peak": {"reason": "no peak is known for this one machine"}})
    started(run)
    step(run, 1)

    lines = screen(50).splitlines()

    at = next(place for place, line in enumerate(lines) if line.startswith("MFU"))
    assert lines[at].split() == ["MFU", "unknown", "no", "peak", "is", "known", "for"]
    assert lines[at + 1].startswith(" " * lines[at].index("no peak"))


def test_before_the_first_step_the_screen_makes_nothing_up(run, screen):
    started(run)

    shown = screen()

    assert "train" in shown
    assert not any(words in shown for words in ("loss", "MFU", "cost", "memory"))


@pytest.mark.parametrize("peak", [None, 5, {}, {"flops": None, "reason": "no peak is known"}, {"flops": 0}])
def test_without_a_peak_mfu_is_unknown(run, screen, peak):
    records.write_json(run.environment, {"peak": peak})
    started(run)
    step(run, 1)

    assert "unknown" in screen()


def test_damaged_records_leave_their_figures_out(run, screen):
    for path in (run.environment, run.cost, run.resource):
        path.write_bytes(b"{")
    step(run, 1)

    assert "cost" not in screen()
