"""Ctrl-C while money is at stake: once ends the rental in order, twice leaves at once and says what still lives."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

CAUGHT = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class LeaveNow(SystemExit):
    """The second signal: the process ends; the journal and the machine's own lease take over."""


class Signals:
    """While entered, the first signal is only noted, so that no answer of the cloud is thrown away half-read."""

    def __init__(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        self.caught: int | None = None
        self._first = first
        self._second = second
        self._before: dict[int, signal.Handlers | Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._received) for number in CAUGHT}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self.caught is not None:
            self._second()
            raise LeaveNow(128 + number)
        self.caught = number
        self._first()
