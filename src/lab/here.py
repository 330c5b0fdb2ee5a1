"""The folder in which this process was started: code of plugins may leave it, and what lab finds stays where it is."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_remembered: list[Path] = []


def here() -> Path:
    """Where relative paths start. Raises `FileNotFoundError` when that folder no longer exists."""
    return _remembered[-1] if _remembered else Path.cwd()


@contextmanager
def remembered() -> Iterator[None]:
    """Let `here` be the working directory of this moment, whatever changes it meanwhile."""
    try:
        _remembered.append(Path.cwd())
    except FileNotFoundError:  # told by the first who needs it
        yield
        return
    try:
        yield
    finally:
        _remembered.pop()


@contextmanager
def staying() -> Iterator[list[str]]:
    """Come back to the working directory after code that is not ours; what is yielded then says so, if that was needed.

    What a person typed as a path means the folder in which it was typed.
    """
    moved: list[str] = []
    handle = os.open(os.curdir, getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    try:
        yield moved
    finally:
        try:
            if not _is_current(handle):
                os.fchdir(handle)
                moved.append("it changed the working directory, which lab put back")
        finally:
            os.close(handle)


def _is_current(handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(os.curdir), os.fstat(handle))
    except OSError:
        return False
