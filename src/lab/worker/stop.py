"""The wish to stop: a signal is remembered, and the worker asks between two steps."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """Not asked until one of the signals comes."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    @classmethod
    def on_signals(cls) -> Stop:
        """Catch SIGTERM and Ctrl-C from now on."""
        stop = cls()
        for number in SIGNALS:
            signal.signal(number, stop._remember)
        return stop

    @property
    def asked(self) -> bool:
        """Whether the step in progress is to be the last."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """143 for SIGTERM, 130 for Ctrl-C, as every shell has it."""
        return 128 + (self.signal or signal.SIGTERM)

    def _remember(self, number: int, frame: FrameType | None) -> None:
        self.signal = signal.Signals(number)
