"""One traced step: a profiler session that holds that step and nothing else."""

from __future__ import annotations

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.profiler import ProfilerActivity, profile, record_function

if TYPE_CHECKING:
    import torch

    from lab_profiler.options import ProfilerOptions

    Trace = dict[str, Any]
    """A Chrome trace as torch exports it."""


class Recording:
    """Begins when built. `end` gives the step's trace; it is exported once, because torch allows no second time."""

    def __init__(self, step: int, options: ProfilerOptions, device: torch.device) -> None:
        self.step = step
        activities = [ProfilerActivity.CPU]
        if device.type == "cuda":
            activities.append(ProfilerActivity.CUDA)
        self._session = profile(
            activities=activities,
            record_shapes=options.shapes,
            profile_memory=options.memory,
            with_stack=options.stacks,
            acc_events=True,  # otherwise torch warns that a longer session would drop events
        )
        self._session.start()
        self._range = ExitStack()
        self._range.enter_context(record_function(f"step {step}"))

    def end(self) -> Trace:
        """Stop and return the trace."""
        self._range.close()
        self._session.stop()
        with tempfile.TemporaryDirectory(prefix="lab-profiler-") as folder:
            file = Path(folder) / "trace.json"
            self._session.export_chrome_trace(str(file))
            trace: Trace = json.loads(file.read_text(encoding="utf-8", errors="replace"))
        trace.pop("traceName", None)  # the temporary file's path
        return trace


def merged(traces: list[Trace]) -> Trace:
    """One trace of several steps, on one time axis."""
    first = traces[0]
    base = first.get("baseTimeNanoseconds", 0)
    events = []
    for trace in traces:
        shift = (trace.get("baseTimeNanoseconds", 0) - base) / 1000
        events += [{**event, "ts": event["ts"] + shift} if "ts" in event else event for event in trace["traceEvents"]]
    return {**first, "traceEvents": events}
