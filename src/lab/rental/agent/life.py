"""How long the machine may live: a lease that contact renews, and a limit that no restart of the container extends.

Both are measured on a monotonic clock. What of the limit is used up is kept on disk for each term, and a term begins
when the controller says so: a machine that is started again later does not die of the limit of an earlier attempt.
"""

from __future__ import annotations

import secrets
import threading
import time
from typing import TYPE_CHECKING

from . import durable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAVE_SECONDS = 15.0
SAVING_GRACE_SECONDS = 120.0
"""Before its limit the job gets so long to finish its step and save."""
MOST_BOOTS = 20
"""A container that restarts in a loop gets no more time for contact after so many boots without any."""


class Life:
    """Counts down. `due()` says why the machine must stop itself now, if it must."""

    def __init__(
        self, path: Path, nonce: str, idle_seconds: float, limit_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._idle_seconds = idle_seconds
        self.lease_seconds = idle_seconds
        self.boot_id = secrets.token_hex(8)
        self._began = self._contact = self._counted = monotonic()
        term = durable.read(path)
        if term.get("nonce") != nonce:
            term = {"nonce": nonce, "limit_seconds": limit_seconds, "used_seconds": 0.0, "boots": 0, "silent_boots": 0}
        term["boots"] += 1
        term["silent_boots"] += 1
        self._term = term
        self._contact_grace = idle_seconds if term["silent_boots"] <= MOST_BOOTS else 0.0
        self._save()

    @property
    def boots(self) -> int:
        """How often the container has started on this disk."""
        return int(self._term["boots"])

    def uptime(self) -> float:
        """Seconds since this boot."""
        return self._monotonic() - self._began

    def renew(self) -> None:
        """The controller was heard."""
        with self._lock:
            self._contact = self._monotonic()
            self._term["silent_boots"] = 0

    def set_limits(self, lease_seconds: float, limit_seconds: float) -> None:
        """Begin a new term."""
        with self._lock:
            self.lease_seconds = lease_seconds
            self._term.update(limit_seconds=limit_seconds, used_seconds=0.0)
            self._counted = self._monotonic()
            self._contact_grace = 0.0
            self._save()

    def job_ended(self) -> None:
        """From now on the machine does no work, so the short lease counts again, from now."""
        with self._lock:
            self.lease_seconds = min(self.lease_seconds, self._idle_seconds)
            self._contact = self._monotonic()

    def tick(self) -> None:
        """Count the time that has passed, and keep it now and then."""
        with self._lock:
            if self._monotonic() - self._counted >= SAVE_SECONDS:
                self._save()

    def due(self, working: bool) -> str | None:
        """Why the machine must be stopped now, or None."""
        with self._lock:
            silent = self._monotonic() - self._contact
            if silent >= self.lease_seconds:
                return f"nobody was heard for {silent:.0f} s"
            left = self._left()
            if left <= (SAVING_GRACE_SECONDS if working else 0.0):
                return "its limit of time or money is reached"
        return None

    def _left(self) -> float:
        used = float(self._term["used_seconds"]) + self._monotonic() - self._counted
        left = float(self._term["limit_seconds"]) - used
        return max(left, self._contact_grace - self.uptime())

    def _save(self) -> None:
        now = self._monotonic()
        self._term["used_seconds"] = float(self._term["used_seconds"]) + now - self._counted
        self._counted = now
        try:
            durable.write(self._path, self._term)
        except OSError:
            return  # a full disk must not end the agent; the time is still counted in memory
