"""Watching a run from any terminal until it has ended, from nothing but its records."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from lab.cli.fact_lines import fact_lines
from lab.cli.output import plain
from lab.cli.run_figures import left
from lab.cli.run_view import Lines, Live, Silent
from lab.compare.formats import quantity, size, speed
from lab.errors import Interrupted, LabError
from lab.launch.follow import StageLines, new_lines
from lab.runs import records
from lab.runs.row import read_row
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Group
    from rich.text import Text

    from lab.launch.follow import View
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record

POLL_SECONDS = 0.3


def follow(run: RunDirectory, *, quiet: bool = False) -> bool:
    """Show what happens until the run has ended; whether it completed. Ctrl-C ends the watching and not the run."""
    planned = read_row(run).planned_steps
    view: View = Silent() if quiet else Screen(run, planned) if sys.stderr.isatty() else Lines(planned)
    try:
        _watch(run, view)
    except KeyboardInterrupt as error:
        again = f"Look again: lab runs show {run.id} --follow. End it: lab runs stop {run.id}"
        raise Interrupted(f"{run.id} goes on without being watched.", again) from error
    finally:
        view.close()
    return status(run).word == "completed"


def _watch(run: RunDirectory, view: View) -> None:
    attempt, stages, metrics = 0, StageLines(run, 1), records.Tail(run.metrics)
    while True:
        now = status(run)  # asked before reading: what was written until then is shown
        if now.attempt != attempt:
            attempt, stages = now.attempt, StageLines(run, now.attempt)
        lines = new_lines(stages, view)
        starts = [at for at, line in enumerate(lines) if line.get("event") == "started"]
        running = starts[-1] + 1 if starts else 0
        for line in lines[:running]:
            view.stage(line)
        for line in new_lines(metrics, view):
            view.metric(line)
        for line in lines[running:]:  # a stage ends after its steps
            view.stage(line)
        view.tick()
        if now.final:
            return
        time.sleep(POLL_SECONDS)


class Screen(Live):
    """The picture of `lab run` with every figure on a line of its own below it."""

    def __init__(self, run: RunDirectory, planned_steps: int | None) -> None:
        self._seconds = self._flops = 0.0
        self._memory: dict[str, int] = {}
        super().__init__(run, planned_steps)

    def stage(self, line: Record) -> None:
        """Take in a stage's start or end; one that runs already is as old as its record says."""
        super().stage(line)
        started = line.get("unix")
        if line.get("event") == "started" and isinstance(started, (int, float)):
            self._since = time.monotonic() - max(0.0, time.time() - started)

    def metric(self, line: Record) -> None:
        """Take in a step or an evaluation."""
        super().metric(line)
        if line.get("kind") != "step":
            return
        for name in ("allocated_bytes", "reserved_bytes"):
            if isinstance(line.get(name), int):
                self._memory[name] = max(self._memory.get(name, 0), line[name])
        seconds, flops = line.get("seconds"), line.get("flops")
        normal = not line.get("warmup") and not line.get("observed")
        if normal and isinstance(seconds, (int, float)) and isinstance(flops, (int, float)):
            self._seconds += seconds
            self._flops += flops

    def _picture(self) -> Group:
        from rich.console import Group
        from rich.text import Text

        now = status(self._run)
        heading = Text.assemble((self._run.id, "bold"), "  ", now.word)
        facts = list(self._facts())
        below = [Text(""), *fact_lines(facts, self._console.width)] if facts else []
        return Group(heading, Text(""), super()._picture(), *below)

    def _progress(self) -> Iterator[Text]:
        if not self._shows_steps():
            yield from super()._progress()
            return
        yield from self._bar()
        if self._training.seconds_left:
            yield plain(left(self._training.seconds_left))

    def _facts(self) -> Iterator[tuple[str, str, str]]:
        training = self._training
        if training.loss is not None:
            yield "loss", quantity(training.loss, "nats/token"), f"step {training.step}"
        if training.evaluation is not None:
            step, loss = training.evaluation
            yield "evaluation", quantity(loss, "nats/token"), f"after step {step}, on fixed inputs"
        if training.tokens_per_second is not None:
            yield "speed", speed(training.tokens_per_second), "of the latest steps"
            yield "MFU", *self._mfu()
        if "allocated_bytes" in self._memory:
            reserved = self._memory.get("reserved_bytes")
            yield "peak memory", size(self._memory["allocated_bytes"]), f"{size(reserved)} reserved" if reserved else ""
        cost = _lenient(self._run, "cost")
        if isinstance(cost.get("dollars"), (int, float)):
            yield "cost so far", quantity(cost["dollars"], "dollars"), _rate(cost)
        resource = _lenient(self._run, "resource")
        if resource.get("status") not in (None, "none"):
            yield "machine", str(resource["status"]), str(resource.get("machine") or "")

    def _mfu(self) -> tuple[str, str]:
        peak = _lenient(self._run, "environment").get("peak")
        known = peak if isinstance(peak, dict) else {}
        if not isinstance(known.get("flops"), (int, float)) or not known["flops"]:
            return "unknown", str(known.get("reason") or "the device's peak is not recorded")
        if self._seconds <= 0:
            return "unknown", "no step was measured"
        share = self._flops / self._seconds / known["flops"]
        return quantity(share, "share"), "of all measured steps"


def _rate(cost: Record) -> str:
    rate = cost.get("dollars_per_hour")
    return f"at {quantity(rate, 'dollars')} an hour" if isinstance(rate, (int, float)) else ""


def _lenient(run: RunDirectory, name: str) -> Record:
    """A record that may be missing or damaged while somebody writes it."""
    try:
        return records.read_json(getattr(run, name)) or {}
    except LabError:
        return {}
