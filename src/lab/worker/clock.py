"""The clock: how long a step took, by events on CUDA and by the wall clock elsewhere, and the memory it peaked at."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


class Lap(Protocol):
    """One step's measurement."""

    @property
    def allocated_bytes(self) -> int | None:
        """The most memory that tensors held during the step."""
        ...

    @property
    def reserved_bytes(self) -> int | None:
        """The most memory that the allocator held during the step."""
        ...

    def seconds(self) -> float:
        """How long the step took; waits for the device to finish it."""
        ...


class Clock(Protocol):
    """Runs only between `start` and `stop`: only while a step is being pulled."""

    @property
    def timer(self) -> str:
        """What it reads."""
        ...

    def start(self) -> None:
        """A step starts."""
        ...

    def stop(self) -> Lap:
        """The step has been handed to the device as a whole."""
        ...

    def synchronise(self) -> None:
        """Wait for the device, so that what follows is not measured with the step and the step not with it."""
        ...


def clock_for(device: torch.device) -> Clock:
    """The clock of a device."""
    return CudaClock(device) if device.type == "cuda" else WallClock()


class WallLap:
    """A step that was over when the clock stopped."""

    allocated_bytes = None
    reserved_bytes = None

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def seconds(self) -> float:
        """How long the step took."""
        return self._seconds


class WallClock:
    """For devices that work while they are asked to."""

    timer = "perf_counter"

    def __init__(self, now: Callable[[], float] = time.perf_counter) -> None:
        self._now = now
        self._started = 0.0

    def start(self) -> None:
        """A step starts."""
        self._started = self._now()

    def stop(self) -> WallLap:
        """The step is over."""
        return WallLap(self._now() - self._started)

    def synchronise(self) -> None:
        """Nothing is under way."""


class CudaLap:
    """A step that the device may still be computing."""

    def __init__(self, started: torch.cuda.Event, ended: torch.cuda.Event, device: torch.device) -> None:
        self._started, self._ended = started, ended
        # The allocator keeps its books when memory is asked for, so the peaks are known before the device is done.
        self.allocated_bytes = torch.cuda.max_memory_allocated(device)
        self.reserved_bytes = torch.cuda.max_memory_reserved(device)

    def seconds(self) -> float:
        """How long the device took; waits for it."""
        self._ended.synchronize()
        milliseconds: float = self._started.elapsed_time(self._ended)
        return milliseconds / 1000.0


class CudaClock:
    """Marks start and end in the device's own queue, so that measuring makes nothing wait."""

    timer = "CUDA events"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._started = self._event()

    def start(self) -> None:
        """A step starts."""
        torch.cuda.reset_peak_memory_stats(self._device)
        self._started = self._event()
        self._started.record()

    def stop(self) -> CudaLap:
        """Everything of the step is in the device's queue."""
        ended = self._event()
        ended.record()
        return CudaLap(self._started, ended, self._device)

    def synchronise(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize(self._device)

    def _event(self) -> torch.cuda.Event:
        return torch.cuda.Event(enable_timing=True)
