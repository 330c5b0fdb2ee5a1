"""The `memory-snapshot` observer: the allocator's history during one step, its events by phase, and its peak."""

from __future__ import annotations

import pickle
import time
from time import perf_counter
from typing import TYPE_CHECKING

from lab.contracts import Observer
from lab.runs import records
from lab_memory_snapshot.recorder import CudaRecorder
from lab_memory_snapshot.replay import PhaseSpan, by_category, by_line, by_phase, replay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.contracts import LoopContext
    from lab_memory_snapshot.options import MemorySnapshotOptions
    from lab_memory_snapshot.recorder import Recorder, Snapshot

SNAPSHOT, EVENTS = "memory-snapshot.pickle", "memory-events.json"


class MemorySnapshot(Observer):
    """Records nothing but its step, and says so where there is no CUDA allocator to record."""

    def __init__(self, options: MemorySnapshotOptions, recorder: Recorder | None = None) -> None:
        self.options = options
        self.observed_steps = frozenset({options.step})
        self._recorder = recorder
        self._recording = False
        self._done = False
        self._events: list[dict[str, object]] = []
        self._phases: list[PhaseSpan] = []
        self._baseline = 0
        self._seconds = 0.0

    def run_started(self, context: LoopContext) -> None:
        """Find the allocator; without one, say that there will be no snapshot."""
        self._context = context
        if self._recorder is None and context.device.type == "cuda":
            self._recorder = CudaRecorder(self.options, context.device)

    def step_started(self, step: int) -> None:
        """Begin to record the chosen step."""
        if step == self.options.step and self._recorder is not None:
            begun = perf_counter()
            self._baseline = self._recorder.allocated()[0]
            self._recorder.begin()
            self._recording = True
            self._mark("step", "started")
            self._seconds += perf_counter() - begun

    def phase_started(self, step: int, phase: str) -> None:
        """Mark the start of a phase of the chosen step."""
        if self._recording:
            self._mark(phase, "started")

    def phase_ended(self, step: int, phase: str) -> None:
        """Mark its end."""
        if self._recording:
            self._mark(phase, "ended")

    def step_finished(self, step: int, line: Mapping[str, object]) -> None:
        """Stop recording and write what there is."""
        if self._recording and step == self.options.step:
            self._mark("step", "ended")
            self._save(None)

    def run_finished(self, step: int) -> None:
        """Keep a recording that broke off (out of memory, say), or say why there is none."""
        if self._recording:
            self._save(f"step {self.options.step} did not finish")
        elif not self._done and not (self._context.folder / EVENTS).exists():
            self._say_nothing(step)

    def _mark(self, phase: str, event: str) -> None:
        assert self._recorder is not None
        moment = time.time_ns() // 1000
        allocated, reserved = self._recorder.allocated()
        self._events.append(
            {
                "phase": phase,
                "event": event,
                "time_us": moment,
                "allocated_bytes": allocated,
                "reserved_bytes": reserved,
            }
        )
        if event == "ended" and phase != "step":
            start = next(e["time_us"] for e in reversed(self._events) if (e["phase"], e["event"]) == (phase, "started"))
            assert isinstance(start, int)
            self._phases.append(PhaseSpan(phase, start, moment))

    def _save(self, partial: str | None) -> None:
        assert self._recorder is not None
        begun = perf_counter()
        self._recording, self._done = False, True
        snapshot = self._recorder.end()
        folder = self._context.folder
        records.write_bytes(folder / SNAPSHOT, pickle.dumps(snapshot))
        self._seconds += perf_counter() - begun
        suffix = f" (partial: {partial})" if partial else ""
        records.write_json(folder / EVENTS, {**self._summary(snapshot), "partial": partial})
        self._context.add_artifact(folder / SNAPSHOT, "snapshot", f"GPU memory of step {self.options.step}{suffix}")
        self._context.add_artifact(folder / EVENTS, "json", f"GPU memory by phase and category{suffix}")

    def _summary(self, snapshot: Snapshot) -> dict[str, object]:
        history = snapshot["device_traces"][self._context.device.index or 0]
        replayed = replay(history, sorted(self._phases, key=lambda phase: phase.start), self._baseline)
        return {
            "schema": 1, "available": True, "step": self.options.step, "events": self._events,
            "history": {
                "entries": len(history), "max_entries": self.options.max_entries,
                "cut": len(history) >= self.options.max_entries,
                "allocations": replayed.allocations, "frees_of_earlier_blocks": replayed.missed_frees,
            },
            "peak": {
                "bytes": replayed.peak_bytes, "above_start_bytes": replayed.peak_bytes - replayed.baseline_bytes,
                "phase": replayed.peak_phase, "by_category": by_category(replayed), "by_phase": by_phase(replayed),
                "by_line": by_line(replayed),
            },
            "cost_seconds": self._seconds,
        }  # fmt: skip

    def _say_nothing(self, last_step: int) -> None:
        reason = (
            f"not available: the device '{self._context.device.type}' has no CUDA allocator"
            if self._recorder is None
            else f"not captured: step {self.options.step} never came, step {last_step} was the last"
        )
        self._context.note("memory-snapshot", reason)
        record = {"schema": 1, "available": False, "step": self.options.step, "reason": reason, "events": []}
        records.write_json(self._context.folder / EVENTS, record)
        self._context.add_artifact(self._context.folder / EVENTS, "json", f"GPU memory ({reason})")
