"""Rate limits: three fixed windows for each key, as the API's headers describe them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

WINDOWS = {"minute": 60, "hour": 3600, "day": 86400}


@dataclass
class Limits:
    """How many requests each window admits, and how many each key has made in the present one."""

    quota: dict[str, int] = field(default_factory=lambda: {"minute": 180, "hour": 7200, "day": 86400})
    _used: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)

    def admit(self, key: str, now: float) -> bool:
        """Count one request; False when a window is exhausted."""
        admitted = all(self._left(key, window, now) > 0 for window in WINDOWS)
        if admitted:
            for window in WINDOWS:
                number, used = self._window(key, window, now)
                self._used[key, window] = (number, used + 1)
        return admitted

    def headers(self, key: str, now: float) -> dict[str, str]:
        """RateLimit and RateLimit-Policy."""
        live = [f'"{w}";r={self._left(key, w, now)};t={self._wait(w, now)}' for w in WINDOWS]
        policy = [f'"{window}";q={self.quota[window]};w={seconds}' for window, seconds in WINDOWS.items()]
        return {"RateLimit": ", ".join(live), "RateLimit-Policy": ", ".join(policy)}

    def retry_after(self, key: str, now: float) -> int:
        """How long until every exhausted window is over."""
        return max((self._wait(window, now) for window in WINDOWS if self._left(key, window, now) == 0), default=1)

    def _window(self, key: str, window: str, now: float) -> tuple[int, int]:
        number = int(now // WINDOWS[window])
        known, used = self._used.get((key, window), (number, 0))
        return (number, used if known == number else 0)

    def _left(self, key: str, window: str, now: float) -> int:
        return max(0, self.quota[window] - self._window(key, window, now)[1])

    def _wait(self, window: str, now: float) -> int:
        return math.ceil(WINDOWS[window] - now % WINDOWS[window])
