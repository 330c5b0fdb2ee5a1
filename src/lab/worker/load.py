"""What the run takes of its machine between two steps, memory and time of processor and GPU, and what others take."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from lab.worker import gpu

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_SECONDS = 1.0
SHORTEST_SECONDS = 0.5
"""Over less the system's counters, which tick a hundred times a second, say nothing of a processor's use."""
SHARE = 0.01
"""At most this share of the time goes into sampling, however slowly a driver answers."""


class Load:
    """Read between two pulls, outside the clock: a sample a second at most, so that short steps pay nothing for it."""

    def __init__(self, device: gpu.Gpu | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due = self._counted = now()
        self._gpu = gpu.here() if device is None else device
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only marks where the next one counts from
        self._others = Others(self._process)

    def read(self) -> dict[str, object]:
        """Nothing while the last sample is young; else resident memory now, processor time since, and the GPU.

        Processor time is in percent of one core, that of other processes in percent of all cores, GPU time in percent
        of the GPU.
        """
        began = self._now()
        if began < self._due:
            return {}
        found: dict[str, object] = {"process_bytes": self._process.memory_info().rss}
        if began - self._counted >= SHORTEST_SECONDS:
            found |= {"processor_percent": self._process.cpu_percent(), **self._others.read()}
            self._counted = began
        if self._gpu is not None:
            found |= self._gpu.read()
        ended = self._now()
        self._due = began + max(EVERY_SECONDS, (ended - began) / SHARE)
        return found


class Others:
    """The processor time that this machine spent on anything but one process, by the system's own counters."""

    def __init__(self, process: psutil.Process) -> None:
        self._process = process
        self._before = self._counted()

    def read(self) -> dict[str, object]:
        """What went to others since the last call, in percent of all cores; nothing where no time was counted."""
        before, self._before = self._before, self._counted()
        passed, busy, own = (now - then for now, then in zip(self._before, before, strict=True))
        return {"others_percent": 100.0 * min(1.0, max(0.0, (busy - own) / passed))} if passed > 0 else {}

    def _counted(self) -> tuple[float, float, float]:
        """Seconds of all cores together: all that passed, those not idle, and those of the process."""
        system, own = psutil.cpu_times()._asdict(), self._process.cpu_times()
        passed = sum(seconds for name, seconds in system.items() if not name.startswith("guest"))  # in user already
        return passed, passed - system["idle"] - system.get("iowait", 0.0), own.user + own.system
