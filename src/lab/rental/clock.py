"""The one way in which a rental reads the time and waits, so that tests can make hours pass at once."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Two readings and one wait; nothing in `lab.rental` asks the machine for the time in another way."""

    def wall(self) -> float:
        """Seconds since 1970. May jump; the only reading that two processes share."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; may stand still while the machine sleeps."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The real one."""

    def wall(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
