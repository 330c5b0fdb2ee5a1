"""Simulated time: `factor` simulated seconds pass in each real one, and it can be moved forward at once."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta


class Clock:
    """The cloud's own time; it starts at 0 when the simulator starts."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor
        self._began = time.monotonic()
        self._skipped = 0.0
        self._epoch = datetime.now(UTC)

    def now(self) -> float:
        """Simulated seconds since the start."""
        return (time.monotonic() - self._began) * self.factor + self._skipped

    def utc(self, moment: float | None = None) -> str:
        """A simulated moment as RFC 3339, now by default; microseconds, because log lines use it as their id."""
        when = self._epoch + timedelta(seconds=self.now() if moment is None else moment)
        return when.isoformat(timespec="microseconds").replace("+00:00", "Z")

    def moment(self, text: str) -> float:
        """The simulated moment that `utc` wrote."""
        return (datetime.fromisoformat(text) - self._epoch).total_seconds()

    def skip(self, seconds: float) -> None:
        """Move the time forward; whatever waits for a moment that is now past goes on within 20 real ms."""
        self._skipped += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait simulated seconds."""
        end = self.now() + seconds
        while (left := end - self.now()) > 0:
            await asyncio.sleep(min(left / self.factor, 0.02))
