"""What the run takes of its machine between two steps: memory and time of the processor and of the GPU."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psutil

from lab.worker import gpu

if TYPE_CHECKING:
    from collections.abc import Callable

EVERY_SECONDS = 1.0
SHARE = 0.01
"""At most this share of the time goes into sampling, however slowly a driver answers."""


class Load:
    """Read between two pulls, outside the clock: a sample a second at most, so that short steps pay nothing for it."""

    def __init__(self, device: gpu.Gpu | None = None, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._due = now()
        self._gpu = gpu.here() if device is None else device
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only marks where the next one counts from

    def read(self) -> dict[str, object]:
        """Nothing while the last sample is young; else resident memory now, processor time since, and the GPU.

        Processor time is in percent of one core, GPU time in percent of the GPU.
        """
        began = self._now()
        if began < self._due:
            return {}
        found: dict[str, object] = {
            "process_bytes": self._process.memory_info().rss,
            "processor_percent": self._process.cpu_percent(),
        }
        if self._gpu is not None:
            found |= self._gpu.read()
        ended = self._now()
        self._due = began + max(EVERY_SECONDS, (ended - began) / SHARE)
        return found
