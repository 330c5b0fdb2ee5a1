"""Small real classes that stand in for machines, clouds and slow parts; each room appends its own."""

from __future__ import annotations

import time


class ScaledClock:
    """A rental's clock that lives in a simulator's time: `factor` of its seconds pass in each real one."""

    def __init__(self, factor):
        self.factor = factor
        self._wall, self._began = time.time(), time.monotonic()

    def wall(self):
        return self._wall + self.monotonic()

    def monotonic(self):
        return (time.monotonic() - self._began) * self.factor

    def sleep(self, seconds):
        time.sleep(seconds / self.factor)
