"""One process at a time mirrors a run, and one that is asked to end delivers first."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.runs.directory import RunDirectory

PATIENCE_SECONDS = 15.0
"""Longer than another process needs for its last delivery beside a worker."""
FOLDER = "wandb"


@contextmanager
def alone(run: RunDirectory, seconds: float = PATIENCE_SECONDS) -> Iterator[None]:
    """Hold the run's mirror. Raises `LabError` when another process does for longer than `seconds`."""
    folder = run.path / FOLDER
    folder.mkdir(exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        until = time.monotonic() + seconds
        while not _locked(handle):
            if time.monotonic() > until:
                raise LabError(f"{run.id}: another process mirrors this run into W&B now.", "Wait until it is done.")
            time.sleep(0.1)
        with _sigterm_ends_in_order():
            yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _sigterm_ends_in_order() -> Iterator[None]:
    """Let SIGTERM end the process as `sys.exit` does, so that what is on its way is delivered."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
