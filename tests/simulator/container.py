"""One boot of a Pod's container: a supervised process group with a log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SUPERVISOR = Path(__file__).with_name("supervisor.py")


class Container:
    """A running container. `stop` returns once nothing of it is alive."""

    def __init__(self, order: dict[str, Any], heard: Callable[[str], None]) -> None:
        self.log = Path(order["log"])
        self._heard = heard
        self._read = self.log.stat().st_size if self.log.exists() else 0
        self._rest = b""
        self._process = subprocess.Popen(
            [sys.executable, "-I", str(SUPERVISOR)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
        )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    async def wait(self) -> int:
        """Read its log as it grows; return the exit code of its main process."""
        while (code := self._process.poll()) is None:
            self._listen()
            await asyncio.sleep(0.02)
        self.cut()
        self._listen()
        return code

    async def stop(self) -> None:
        """Close the life-line and wait."""
        self.cut()
        while self._process.poll() is None:
            await asyncio.sleep(0.01)
        self._listen()

    def cut(self) -> None:
        """Close the life-line; the supervisor ends everything."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def end(self) -> None:
        """Close the life-line and wait, without an event loop."""
        self.cut()
        self._process.wait()

    def _listen(self) -> None:
        """Pass on the lines that were written since the last time."""
        if not self.log.exists():
            return
        with self.log.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        self._read += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._heard(line.decode("utf-8", "replace"))
