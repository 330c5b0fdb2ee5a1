"""Phases of a step: told to observers, and named ranges in a trace."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from torch.profiler import record_function

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.worker.observers import Observers


class Phases:
    """`with phases("forward"):` inside a loop."""

    def __init__(self, observers: Observers) -> None:
        self._observers = observers
        self._open: list[str] = []
        self.step = 0
        """The step that is being pulled."""

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """One phase; it is over when the block ends, however it ends."""
        step = self.step
        self._open.append(name)
        self._observers.phase_started(step, name)
        try:
            with record_function(name):
                yield
        finally:
            self._open.remove(name)
            self._observers.phase_ended(step, name)

    def require_closed(self) -> None:
        """Raise `LabError` when a loop yields inside a phase: the time between two steps would belong to it."""
        if self._open:
            raise LabError(
                f"The loop yielded inside the phase '{self._open[-1]}'.",
                "End every phase before the yield.",
            )
