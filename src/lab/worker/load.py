"""What the worker's process takes of its machine between two steps: memory and processor time."""

from __future__ import annotations

import psutil


class Load:
    """Read between two pulls, outside the clock."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._process.cpu_percent()  # the first call only marks where the next one counts from

    def read(self) -> dict[str, object]:
        """Resident memory now, and processor time since the last read: 100 is one core all the time."""
        return {"process_bytes": self._process.memory_info().rss, "processor_percent": self._process.cpu_percent()}
