"""Opening the files of a run directory: regular ones only, without waiting, whatever a stage left under their names.

A pipe would wait for its other end for ever, a link to a device would never end, and a folder is no text.
"""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING, BinaryIO

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedReader
    from pathlib import Path

LONGEST_LINE_BYTES = 1 << 24
"""No record's line comes near; a file without line ends must not fill the memory."""
_ENDLESS = "is not a regular file"
_ELSEWHERE = "set LAB_RUNS and LAB_STORE to folders that have room and are yours"
_REMEDIES = {
    errno.ENOSPC: f"Free space there, or {_ELSEWHERE}.",
    errno.EDQUOT: f"Free some of your quota, or {_ELSEWHERE}.",
    errno.EROFS: f"Make the file system writable, or {_ELSEWHERE}.",
    **dict.fromkeys((errno.EACCES, errno.EPERM), f"Make the folder writable, or {_ELSEWHERE}."),
    errno.ENOENT: f"Its folder was removed, or cannot be made there: look what stands above it, or {_ELSEWHERE}.",
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.EINVAL),
        f"Move away what stands there, or {_ELSEWHERE}.",
    ),
    errno.ENAMETOOLONG: "Give LAB_RUNS and LAB_STORE shorter names.",
}
_REMEDY = f"See what is wrong with the disk, or {_ELSEWHERE}."


def opened(path: Path) -> BufferedReader:
    """Open for reading. Raises `OSError`, whose words name what is wrong with it, for what is not a regular file."""
    return open(descriptor(path, os.O_RDONLY), "rb")


def descriptor(path: Path, flags: int) -> int:
    """`os.open` with these flags, for a regular file only; one that is made is readable for everybody."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.EISDIR):  # a pipe that nobody reads, a socket, a folder
            raise OSError(errno.EINVAL, _ENDLESS, str(path)) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, _ENDLESS, str(path))
    return handle


def require(path: Path) -> None:
    """Raise `OSError` as `opened` does: for files that a library opens by their path."""
    os.close(descriptor(path, os.O_RDONLY))


def lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield its lines as they end; one that is too long for a record loses its end, as if it were torn."""
    while raw := file.readline(LONGEST_LINE_BYTES):
        yield raw
        while len(raw) == LONGEST_LINE_BYTES and not raw.endswith(b"\n"):
            raw = file.readline(LONGEST_LINE_BYTES)


def unreadable(path: Path, error: OSError) -> LabError:
    """The error of a file that cannot be read, for a person."""
    do = "Move away what stands there." if error.errno == errno.EINVAL else ""
    return LabError(f"{path}: cannot be read: {error.strerror or error}", do)


def unwritable(path: Path, error: OSError) -> LabError:
    """The error of a file that cannot be written, with what to do about the usual reasons."""
    return LabError(f"{path}: cannot be written: {error.strerror or error}", _REMEDIES.get(error.errno or 0, _REMEDY))
