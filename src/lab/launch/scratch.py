"""Temporary folders of processes that mirror: each has its own, which is removed also when its process was killed."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFIX = "lab-mirror-"


@contextmanager
def own_folder() -> Iterator[Path]:
    """Let whatever this process and its children leave in the system's temporary folder go into one of its own.

    It goes when the process ends, not before: libraries deliver until then. One that was killed cannot do that; the
    lock on its folder is free then, and the next to come removes it.
    """
    sweep()
    folder, handle = _locked()
    atexit.register(_remove, folder, handle)
    before, known = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        if known is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = known


def sweep() -> None:
    """Remove the folders whose processes are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with suppress(OSError):  # somebody else's, or just removed
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(handle)


def _locked() -> tuple[Path, int]:
    """A new folder and the lock on it; made again where a sweep came between the two."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with suppress(FileNotFoundError):
            handle = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
            fcntl.flock(handle, fcntl.LOCK_EX)
            if folder.exists():
                return folder, handle
            os.close(handle)


def _remove(folder: Path, handle: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(handle)
