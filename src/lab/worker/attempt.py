"""One attempt of a run: build it, go on from its checkpoint if it has one, execute, and write how it ended."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.plugins import blame
from lab.runs import records, summary
from lab.training import fingerprint, flops
from lab.training.random import seed_everything
from lab.worker import assemble, resume, surroundings
from lab.worker.clock import clock_for
from lab.worker.execute import Execution, Position
from lab.worker.mirrors import Mirrors, wanted
from lab.worker.phases import Phases
from lab.worker.process import keep_large_buffers
from lab.worker.schedule import Schedule

if TYPE_CHECKING:
    from lab.contracts import Loop
    from lab.runs.directory import RunDirectory
    from lab.training.checkpoint import State
    from lab.worker.observers import Observers
    from lab.worker.stop import Stop

logger = logging.getLogger(__name__)


class Attempt:
    """Everything of one attempt that outlives its steps. Building it also builds the experiment's parts and loop."""

    def __init__(self, run: RunDirectory, stop: Stop) -> None:
        self._born = time.perf_counter()
        self._earlier_seconds = 0.0
        self.run, self.stop = run, stop
        self.said = assemble.Said(run)
        self.parts = assemble.parts_of(run)
        if self.parts.device.type == "cpu":
            self.said.note("large_buffers_kept", keep_large_buffers())
        self.observers: Observers = assemble.observers_of(self.parts)
        self.phases = Phases(self.observers)
        self.clock = clock_for(self.parts.device)
        saved = resume.load(run, self.parts.experiment)
        seed_everything(self.parts.experiment.seed)
        steps, device = self.parts.train.steps, self.parts.device
        logger.info("building the loop on %s; the first of its %d steps takes longest", device, steps)
        self.loop: Loop = assemble.loop_of(self.parts, run, self.said, self.phases)
        self.handed = assemble.handed_by(self.parts)
        self.fingerprints = {
            "weights_initial": self.handed.weights(self.loop.weights()),
            "scope": fingerprint.scope(self.parts.train.warmup_steps, self.observers.observed_steps, self.clock.timer),
        }
        self.position = self._begin(saved)

    def execute(self) -> int:
        """Train to the end; return the exit code. Whatever happens, observers hear of it and the summary is written."""
        self._write_environment()
        mirrors = Mirrors(self.run, wanted(self.parts))
        mirrors.start()
        status, reason = "failed", ""
        try:
            self.observers.run_started(self.loop.context)
            execution = self._execution()
            reason = execution.run()
            stopped = self.stop.asked and not execution.complete
            status = "stopped" if stopped else "completed"
            return self.stop.exit_code if stopped else 0
        except BaseException as error:
            reason = error.what if isinstance(error, LabError) else blame.told(error, self.parts.plugins.installed)
            raise
        finally:
            self.observers.run_finished(self.position.step)
            self._write_environment()
            self._write_summary(status, reason)
            mirrors.finish()

    @property
    def elapsed_seconds(self) -> float:
        """Since the first attempt began, without the time between attempts."""
        return self._earlier_seconds + time.perf_counter() - self._born

    def _begin(self, saved: State | None) -> Position:
        position = Position() if saved is None else resume.restore(saved, self.loop)
        if saved is not None:
            self._earlier_seconds = float(saved["elapsed_seconds"])
            logger.info("going on after step %d", position.step)
        resume.rewind(self.run, position)
        return position

    def _execution(self) -> Execution:
        return Execution(
            loop=self.loop,
            schedule=Schedule.of(self.parts.experiment),
            observers=self.observers,
            phases=self.phases,
            clock=self.clock,
            metrics=self.run.metrics,
            save=self._save,
            stop=self.stop,
            position=self.position,
            handed=self.handed,
        )

    def _save(self, position: Position) -> None:
        held = self.handed.state(self.loop.state_dict())
        resume.save(self.run, self.parts.experiment, held, position, self.elapsed_seconds)

    def _write_environment(self) -> None:
        if self.observers.switched_off:
            self.said.note("observers_switched_off", self.observers.switched_off)
        device = surroundings.device_record(self.parts.device)
        peak = flops.peak(str(device["name"]), self.parts.train.precision)
        record = surroundings.record(
            self.parts, self.said.notes, self.fingerprints, peak, self.observers.imports.modules
        )
        records.write_json(self.run.environment, record)

    def _write_summary(self, status: str, reason: str) -> None:
        final = self.handed.weights(self.loop.weights()) if status != "failed" else None
        record = summary.summarise(self.run, status, reason, weights_final=final, elapsed_seconds=self.elapsed_seconds)
        records.write_json(self.run.summary, record)
