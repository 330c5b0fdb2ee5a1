"""Submitting a job and following it to its end: what happens is shown, asked to stop and written down here."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from lab.contracts import Talks
from lab.errors import AskedToStop, Interrupted, LabError
from lab.launch import collect, recording
from lab.launch.stops import Stops
from lab.runs.records import Tail

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.contracts import Backend, JobState, Receipt
    from lab.jobs import Job
    from lab.launch.track import Trackers
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record
    from lab.runs.status import Word

POLL_SECONDS = 0.2
STOPPED = (KeyboardInterrupt, SystemExit, Interrupted, AskedToStop)


class View(Protocol):
    """Shows a run while it happens. It decides nothing."""

    def stage(self, line: Record) -> None:
        """A line of stages.jsonl."""
        ...

    def metric(self, line: Record) -> None:
        """A line of metrics.jsonl."""
        ...

    def notice(self, text: str) -> None:
        """Something a person should read."""
        ...

    def tick(self) -> None:
        """Time has passed."""
        ...

    def close(self) -> None:
        """The run has ended, or is no longer followed."""
        ...


@dataclass(frozen=True)
class Ending:
    """How a run ended, and with which code the command should."""

    word: Word
    reason: str
    exit_code: int
    missing: Sequence[str] = ()
    """Results that could not be brought home, each with its reason."""


class StageLines:
    """The stage runner's lines of one attempt as they come; those of earlier attempts stand before its entry."""

    def __init__(self, run: RunDirectory, attempt: int) -> None:
        self._tail = Tail(run.stages)
        self._attempt = attempt
        self._entered = attempt == 1

    def new(self) -> Iterator[Record]:
        """What came since the last call."""
        for line in self._tail.new():
            if line.get("event") == "entered":
                self._entered = line.get("attempt") == self._attempt
            elif self._entered:
                yield line


def new_lines(lines: StageLines | Tail, view: View) -> list[Record]:
    """What came since the last call; a file that cannot be read is told once and ends nothing."""
    try:
        return list(lines.new())
    except LabError as error:
        view.notice(f"{error.what} (the run goes on)")
        return []


def execute(run: RunDirectory, job: Job, backend: Backend, view: View, trackers: Trackers) -> Ending:
    """Submit the job, follow it until it ended, bring everything home, and write down how it ended."""
    if isinstance(backend, Talks):
        backend.say = view.notice
    with Stops() as stops:
        receipt = _submit(run, job, backend, view)
        trackers.start()
        try:
            state, deleted = _watch(run, job.attempt, receipt, backend, view, trackers, stops)
        finally:
            view.close()
        try:
            missing = [] if deleted else list(backend.fetch(receipt, run))
        finally:  # how the job ended is known, whatever becomes of its results and its machine
            word, reason = collect.settle(run, state, job.attempt)
        before = len(stops.numbers)
        trackers.finish(lambda: len(stops.numbers) > before)
        code = _exit_code(word, stops.numbers, stops.numbers[before:])
    return Ending(word, reason, code, missing)


def _submit(run: RunDirectory, job: Job, backend: Backend, view: View) -> Receipt:
    try:
        receipt = backend.submit(job, run)
    except BaseException as error:
        reason = error.what if isinstance(error, LabError) else f"{type(error).__name__}: {error}"
        word: Word = "stopped" if isinstance(error, STOPPED) else "failed"
        recording.set_outcome(run, word, job.attempt, reason=f"it was not started: {reason}", ended=recording.now())
        raise
    try:
        recording.write_receipt(run, receipt)
        recording.set_outcome(run, "running", job.attempt)
    except LabError as error:  # the job runs all the same, and its own records say so
        view.notice(error.what)
    return receipt


def _watch(
    run: RunDirectory, attempt: int, receipt: Receipt, backend: Backend, view: View, trackers: Trackers, stops: Stops
) -> tuple[JobState, bool]:
    """Show what is new until the job has ended; return how, and whether its processes were ended by force."""
    stages, metrics = StageLines(run, attempt), Tail(run.metrics)
    heard = 0
    while True:
        if not run.path.is_dir():
            with contextlib.suppress(LabError):
                backend.stop(receipt)
            raise LabError(
                f"{run.path} has disappeared while the run was at work; its job was asked to stop.",
                "Nothing can be recorded any more. For a rented machine: lab rentals",
            )
        state = backend.state(receipt)  # asked before reading: what it wrote until then is read below
        if heard < len(stops.numbers) and state.phase in ("waiting", "running"):
            heard = _pass_on(heard, receipt, backend, view)
        try:
            backend.records(receipt, run)
        except LabError as error:
            view.notice(f"{error.what} (the run goes on)")
        for line in new_lines(stages, view):
            view.stage(line)
        for line in new_lines(metrics, view):
            view.metric(line)
        trackers.tend()
        view.tick()
        if state.phase in ("finished", "lost"):
            return state, heard > 1
        time.sleep(POLL_SECONDS)


def _pass_on(heard: int, receipt: Receipt, backend: Backend, view: View) -> int:
    """Once asks the worker to save and end, twice ends its processes; more changes nothing."""
    if heard == 0:
        backend.stop(receipt)
        view.notice("asked to stop: it finishes its step and saves. Ctrl-C again ends it at once.")
    elif heard == 1:
        view.notice("ending its processes")
        backend.delete(receipt)
    return heard + 1


def _exit_code(word: Word, numbers: Sequence[int], late: Sequence[int]) -> int:
    """By how the run ended; SIGTERM also ends the wait for what mirrors it, and whoever sent it is told so."""
    if word == "stopped":
        return 130 if signal.SIGINT in numbers else 143
    if word == "completed":
        return 143 if signal.SIGTERM in late else 0
    return 1
