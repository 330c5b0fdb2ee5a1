"""The worker's heart: pull a step, keep the clock, and do everything else between two pulls, outside the clock.

    observers hear that step n starts
    pull step n                                   the clock runs here and only here
    read step n - 1 and write its line            while the device may still compute step n
    evaluate, save                                if due after step n; then n itself is read first

A step is also read at once when it or the next one is observed, and at the end. Then, however it ended, the generator
of steps is closed: in its `finally` a loop writes what it leaves for the report, outside the clock.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.runs import records
from lab.training.optimizer import check_finite
from lab.worker.load import Load
from lab.worker.numbers import Numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab.contracts import Loop, Step
    from lab.worker.clock import Clock, Lap
    from lab.worker.handed import Handed
    from lab.worker.observers import Observers
    from lab.worker.phases import Phases
    from lab.worker.schedule import Schedule
    from lab.worker.stop import Stop

logger = logging.getLogger(__name__)
_NO_MORE = object()


@dataclass
class Position:
    """Where the run stands: what a checkpoint restores."""

    step: int = 0
    targets: int = 0


@dataclass(frozen=True)
class Pulled:
    """A step that was handed to the device and whose numbers are still on their way."""

    number: int
    step: Step
    lap: Lap
    numbers: Numbers


class Execution:
    """Executes one attempt from `position` on; whoever resumes a run hands in where it stood."""

    def __init__(
        self,
        loop: Loop,
        schedule: Schedule,
        observers: Observers,
        phases: Phases,
        clock: Clock,
        metrics: Path,
        save: Callable[[Position], None],
        stop: Stop,
        position: Position,
        handed: Handed,
    ) -> None:
        self.loop, self.schedule, self.observers, self.phases = loop, schedule, observers, phases
        self.clock, self.metrics, self.save, self.stop = clock, metrics, save, stop
        self.position = position
        self.handed = handed
        self._first = position.step
        self._saved = position.step
        self._pending: Pulled | None = None
        self._load = Load()

    @property
    def complete(self) -> bool:
        """Whether the last step is done: a wish to stop that comes during it changes nothing."""
        return self.position.step >= self.schedule.steps

    def run(self) -> str:
        """Execute until the last step, the end of the data or the wish to stop; return "" or why it ended early."""
        if self._first == 0:
            self._evaluate_if_due(0)
        steps = self.handed.steps(self.loop.steps())
        try:
            return self._execute(steps)
        finally:
            _close(steps)

    def _execute(self, steps: Iterator[Step]) -> str:
        """Pull until something ends it, and leave nothing pending."""
        ending = ""
        for number in range(self._first + 1, self.schedule.steps + 1):
            if self.stop.asked:
                break
            if not self._step(steps, number):
                ending = f"the loop ended after {self.position.step} of {self.schedule.steps} steps"
                break
        self._settle()
        if self.stop.asked and self._saved < self.position.step:
            self._save()
        return ending

    def _step(self, steps: Iterator[Step], number: int) -> bool:
        """One step and what is due after it; False when the loop has no more."""
        observed = number in self.observers.observed_steps
        if observed:
            self._settle()
        try:
            pulled = self._pull(steps, number)
        finally:
            self._settle()  # also when the loop raises: the step before it was whole
        if pulled is None:
            return False
        self._pending = pulled
        if observed or self.schedule.evaluates(number) or self.schedule.saves(number):
            self._settle()
        self._evaluate_if_due(number)
        if self.schedule.saves(number):
            self._save()
        return True

    def _pull(self, steps: Iterator[Step], number: int) -> Pulled | None:
        """Let the loop make one step. The clock covers this and nothing else."""
        self.observers.step_started(number)
        self.phases.step = number
        self.clock.start()
        step = next(steps, _NO_MORE)
        lap = self.clock.stop()
        self.phases.require_closed()
        if step is _NO_MORE:
            return None
        checked = self.handed.step(number, step)
        return Pulled(number, checked, lap, Numbers(checked))

    def _settle(self) -> None:
        """Read the pending step, write its line, tell the observers; stop the run when its numbers are not finite."""
        pulled, self._pending = self._pending, None
        if pulled is None:
            return
        line = self._line(pulled)
        self.position.step = pulled.number
        records.append_line(self.metrics, line)
        logger.info("step %d of %d  loss %s  %.3f s", pulled.number, self.schedule.steps, line["loss"], line["seconds"])
        self.observers.step_finished(pulled.number, line)
        if pulled.step.targets:
            check_finite(pulled.number, pulled.numbers.loss(), pulled.numbers.gradient_norm())

    def _line(self, pulled: Pulled) -> dict[str, object]:
        step, number, numbers = pulled.step, pulled.number, pulled.numbers
        seconds = pulled.lap.seconds()
        self.position.targets += step.targets
        line = {
            "kind": "step",
            "step": number,
            "time": time.time(),
            "loss": numbers.loss() if step.targets else None,
            "gradient_norm": numbers.gradient_norm(),
            "learning_rate": step.learning_rate,
            "seconds": seconds,
            "targets": step.targets,
            "targets_total": self.position.targets,
            "tokens": step.tokens,
            "segments": step.segments,
            "packs": step.packs,
            "micro_batches": step.micro_batches,
            "flops": step.flops,
            "fed": step.fed,
            "warmup": number - self._first <= self.schedule.warmup_steps,
            "observed": number in self.observers.observed_steps,
            "allocated_bytes": pulled.lap.allocated_bytes,
            "reserved_bytes": pulled.lap.reserved_bytes,
            **self._load.read(),
        }
        return {**self.handed.new(number, numbers.values(), line), **line}

    def _evaluate_if_due(self, step: int) -> None:
        if not self.schedule.evaluates(step):
            return
        self.clock.synchronise()
        started = time.perf_counter()
        evaluation = self.handed.evaluation(step, self.loop.evaluate())
        if evaluation is None:
            return
        records.append_line(
            self.metrics,
            {
                "kind": "evaluation",
                "step": step,
                "time": time.time(),
                "loss": evaluation.loss,
                "targets": evaluation.targets,
                "tokens": evaluation.tokens,
                "batches": evaluation.batches,
                "inputs": evaluation.inputs,
                "bytes": evaluation.bytes,
                "seconds": time.perf_counter() - started,
            },
        )
        logger.info("evaluation after step %d  loss %.6f", step, evaluation.loss)
        self.observers.evaluated(step, evaluation)

    def _save(self) -> None:
        self.clock.synchronise()
        self.save(self.position)
        self._saved = self.position.step


def _close(steps: Iterator[Step]) -> None:
    """End a generator where it stands; an iterator of another kind has nothing to end."""
    close = getattr(steps, "close", None)
    if close is not None:
        close()
