"""A rental's clock in which minutes pass in seconds, so that the waits of a rented backend can be tested."""

from __future__ import annotations

import time


class ScaledClock:
    """Handed to `RentedBackend(..., clock=ScaledClock())`: `factor` of its seconds pass in each real one."""

    def __init__(self, factor: float = 30.0) -> None:
        self.factor = factor
        self._wall, self._began = time.time(), time.monotonic()

    def wall(self) -> float:
        """Seconds since 1970, real ones until this clock was made."""
        return self._wall + self.monotonic()

    def monotonic(self) -> float:
        """Seconds since this clock was made."""
        return (time.monotonic() - self._began) * self.factor

    def sleep(self, seconds: float) -> None:
        """Wait, shorter than was asked for."""
        time.sleep(seconds / self.factor)
