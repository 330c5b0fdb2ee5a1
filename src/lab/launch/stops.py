"""Ctrl-C and SIGTERM, heard instead of obeyed: whoever is at work ends it where it can be ended."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

CAUGHT = (signal.SIGINT, signal.SIGTERM)


class Stops:
    """Counts Ctrl-C and SIGTERM while entered, so that neither cuts anything short by itself.

    With `raising` each is a `KeyboardInterrupt` too, for work that is not ours and may swallow it; after a second one
    the next ends the process.
    """

    def __init__(self, *, raising: bool = False) -> None:
        self.numbers: list[int] = []
        self._raising = raising
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Stops:
        if threading.current_thread() is threading.main_thread():
            self._before = {number: signal.signal(number, self._count) for number in CAUGHT}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _count(self, number: int, _: FrameType | None) -> None:
        self.numbers.append(number)
        if self._raising:
            if len(self.numbers) > 1:
                signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
