"""Trackers that live beside the worker: each a process of its own, which can neither slow a run for long nor end it."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from lab.here import here
from lab.plugins import chosen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.runs.directory import RunDirectory
    from lab.worker.assemble import Parts

logger = logging.getLogger(__name__)

PATIENCE_SECONDS = 20.0
"""For all of them together at the end: the GPU beside them costs money."""


def wanted(parts: Parts) -> list[str]:
    """The trackers that the experiment wants beside the worker and whose variables were forwarded."""
    found = []
    for kind, key, choice in chosen(parts.experiment):
        if kind != "tracker" or choice.options.get("where") != "worker":
            continue
        needed = getattr(parts.plugins.options(kind, choice, key), "forwards", ())[:1]
        if all(name in os.environ for name in needed):
            found.append(choice.name)
        else:
            logger.info("%s: %s was not forwarded, so it is not mirrored from here", choice.name, *needed)
    return found


def track_command(run: RunDirectory, name: str, *, live: bool) -> list[str]:
    """The process that mirrors the run, until it is told to end or once."""
    command = [sys.executable, "-m", "lab", "runs", "track", str(run.path), "--to", name]
    return [*command, "--live"] if live else command


class Mirrors:
    """Started with the run; at its end each is given what is left of the patience to send the rest."""

    def __init__(
        self, run: RunDirectory, names: Sequence[str], command: Callable[..., list[str]] = track_command
    ) -> None:
        self._run, self._names, self._command = run, names, command
        self._live: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start one process for each tracker."""
        for name in self._names:
            with contextlib.suppress(OSError):  # the last delivery will say what is wrong
                self._live.append(self._started(name, live=True))

    def finish(self, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """End the processes, deliver once more, and leave what takes too long for `lab runs track`."""
        until = time.monotonic() + patience_seconds
        for process in self._live:
            process.terminate()
        last = []
        for name in self._names:
            try:
                last.append((name, self._started(name, live=False)))
            except OSError as error:
                logger.warning("%s: not mirrored: %s", name, error)
        for name, process in last:
            if _ended(process, until) != 0:
                logger.warning("%s: not all was sent; later: lab runs track %s --to %s", name, self._run.id, name)
        for process in self._live:
            _ended(process, until)

    def _started(self, name: str, *, live: bool) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self._command(self._run, name, live=live),
            cwd=here(),  # where it looks for the project, whatever a part did here meanwhile
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if live else None,  # the last delivery says what is wrong, and what is left
        )


def _ended(process: subprocess.Popen[bytes], until: float) -> int:
    """Wait until the moment, then end it; return its exit code."""
    try:
        return process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
