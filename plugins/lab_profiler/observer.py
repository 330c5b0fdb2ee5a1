"""The `profiler` observer: a session around each chosen step, one trace file, one summary."""

from __future__ import annotations

import gzip
import json
from time import perf_counter
from typing import TYPE_CHECKING

from lab.contracts import Observer
from lab.runs import records
from lab_profiler.recording import Recording, merged
from lab_profiler.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.contracts import LoopContext
    from lab_profiler.options import ProfilerOptions
    from lab_profiler.recording import Trace

TRACE, SUMMARY = "timeline.json.gz", "profile.json"
LARGE = 500 * 2**20
"""Uncompressed bytes that viewers in a browser begin to refuse."""


class Profiler(Observer):
    """Nothing but whole steps is in the trace: no evaluation, no checkpoint, nothing between two steps."""

    def __init__(self, options: ProfilerOptions) -> None:
        self.options = options
        self.observed_steps = frozenset(options.steps)
        self._traces: dict[int, Trace] = {}
        self._phases: dict[str, None] = {}
        self._recording: Recording | None = None
        self._seconds = 0.0
        self._saved = False

    def run_started(self, context: LoopContext) -> None:
        """Remember where to write, and say at once which steps cannot come."""
        self._context = context
        train = context.experiment.train
        never = [step for step in self.options.steps if train is not None and step > train.steps]
        if never:
            context.note(
                "profiler", f"steps {never} will not be traced: the run has {train.steps if train else 0} steps"
            )

    def step_started(self, step: int) -> None:
        """Begin to record a chosen step."""
        if step in self.observed_steps:
            begun = perf_counter()
            self._recording = Recording(step, self.options, self._context.device)
            self._seconds += perf_counter() - begun

    def phase_started(self, step: int, phase: str) -> None:
        """Learn which ranges of the trace are phases."""
        self._phases[phase] = None

    def step_finished(self, step: int, line: Mapping[str, object]) -> None:
        """End the recording, and save when it was the last chosen step."""
        if self._recording is not None and self._recording.step == step:
            self._end()
            if len(self._traces) == len(self.options.steps):
                self._save()

    def run_finished(self, step: int) -> None:
        """Keep what there is, and say which chosen steps never came."""
        unfinished = self._recording.step if self._recording is not None else None
        if self._recording is not None:
            self._end()
        if not self._saved:
            self._save(unfinished)

    def _end(self) -> None:
        assert self._recording is not None
        begun = perf_counter()
        recording, self._recording = self._recording, None
        self._traces[recording.step] = recording.end()
        self._seconds += perf_counter() - begun

    def _save(self, unfinished: int | None = None) -> None:
        """Write the trace and its summary; without a captured step only a summary that says so."""
        self._saved = True
        folder = self._context.folder
        if not self._traces and (folder / TRACE).exists():
            return  # an earlier attempt of this run captured its steps
        begun = perf_counter()
        missing = [step for step in self.options.steps if step not in self._traces]
        captured = sorted(set(self._traces) - {unfinished})
        record: dict[str, object] = {
            "schema": 1, "wanted": list(self.options.steps), "captured": captured, "missing": missing,
            "unfinished": unfinished, "partial": bool(missing) or unfinished is not None,
        }  # fmt: skip
        traced = sorted(self._traces)
        size = 0
        if traced:
            found, size = self._written(merged([self._traces[step] for step in traced]))
            record |= found
            self._traces.clear()
        record["cost_seconds"] = self._seconds + perf_counter() - begun
        records.write_json(folder / SUMMARY, record)
        self._announce(traced, _partial(missing, unfinished), _large(size))

    def _written(self, trace: Trace) -> tuple[dict[str, object], int]:
        """What the summary says of the trace, and how many bytes it has unpacked."""
        plain = json.dumps(trace).encode()
        packed = gzip.compress(plain, 6)
        records.write_bytes(self._context.folder / TRACE, packed)
        sizes = {"bytes": len(packed), "uncompressed_bytes": len(plain), "large": len(plain) > LARGE}
        return {**summarise(trace["traceEvents"], self._phases), "trace": {"file": TRACE, **sizes}}, len(plain)

    def _announce(self, traced: list[int], partial: str, large: str) -> None:
        context = self._context
        if partial or large:
            context.note("profiler", _joined(partial, large))
        if traced:
            title = f"Timeline of steps {', '.join(map(str, traced))}"
            context.add_artifact(context.folder / TRACE, "trace", _titled(title, _joined(partial, large)))
        context.add_artifact(context.folder / SUMMARY, "json", _titled("Profile", partial))


def _joined(*said: str) -> str:
    return "; ".join(filter(None, said))


def _titled(title: str, about: str) -> str:
    return f"{title} ({about})" if about else title


def _large(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB unpacked, which a viewer in a browser may refuse" if size > LARGE else ""


def _partial(missing: list[int], unfinished: int | None) -> str:
    said = []
    if missing:
        said.append(f"steps {', '.join(map(str, missing))} never came")
    if unfinished is not None:
        said.append(f"step {unfinished} did not finish")
    return f"partial: {'; '.join(said)}" if said else ""
