"""Whether a KeyboardInterrupt out of a plugin's code is a person's Ctrl-C or the code's own, which is a fault of it."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Those whose handlers may raise it."""


class Unprompted(Exception):
    """Code of a plugin raised KeyboardInterrupt of itself: no signal came."""


@contextmanager
def told_apart() -> Iterator[None]:
    """Raise `Unprompted` in place of a `KeyboardInterrupt` that no signal brought; one that did passes."""
    with _heard() as heard:
        try:
            yield
        except KeyboardInterrupt as error:
            if heard:
                raise
            said = f"KeyboardInterrupt: {error}".rstrip(": ")
            told = Unprompted(f"{said} (of its own: nobody pressed Ctrl-C)")
            raise told.with_traceback(error.__traceback__) from error  # whose frames name the plugin


@contextmanager
def _heard() -> Iterator[list[int]]:
    """The signals that come meanwhile; each still does what it did. Only the main thread is ever interrupted by one."""
    heard: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield heard
        return
    before = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}

    def hear(number: int, frame: FrameType | None) -> None:
        heard.append(number)
        before[signal.Signals(number)](number, frame)

    try:
        for number in before:
            signal.signal(number, hear)
        yield heard
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is hear:  # another one was set on purpose, such as by a second Ctrl-C
                signal.signal(number, handler)
