"""Reading and writing a run's records: atomic JSON files, and JSON lines that survive a kill.

JSON has no NaN and no infinity, so those numbers are written as the strings "NaN", "Infinity" and "-Infinity", and a
text that happens to be one of these words gets a backslash in front. Both come back as they were.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import re
import stat
import tempfile
from typing import TYPE_CHECKING, Any, BinaryIO

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Record = dict[str, Any]
PART = ".part"
_ELSEWHERE = "set LAB_RUNS and LAB_STORE to folders that have room and are yours"
_REMEDIES = {
    errno.ENOSPC: f"Free space there, or {_ELSEWHERE}.",
    errno.EDQUOT: f"Free some of your quota, or {_ELSEWHERE}.",
    errno.EROFS: f"Make the file system writable, or {_ELSEWHERE}.",
    **dict.fromkeys((errno.EACCES, errno.EPERM), f"Make the folder writable, or {_ELSEWHERE}."),
    errno.ENOENT: f"Its folder was removed, or cannot be made there: look what stands above it, or {_ELSEWHERE}.",
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ELOOP), f"Move away what stands there, or {_ELSEWHERE}."
    ),
    errno.ENAMETOOLONG: "Give LAB_RUNS and LAB_STORE shorter names.",
}
_REMEDY = f"See what is wrong with the disk, or {_ELSEWHERE}."
_NUMBERS = frozenset({float, int, bool, type(None)})
"""What a value of a line mostly is: it means itself, and there are millions of them."""
_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ESCAPED = re.compile(r"\\*(?:NaN|-?Infinity)")


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Replace the file as a whole: a reader sees the old record or the new one, never a part."""
    text = json.dumps(_spelled(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a neighbour, sync it and rename it; a failure is a `LabError`, and the neighbour is gone."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def read_json(path: Path) -> Record | None:
    """The record, or None where there is no such file.

    Raises `LabError` naming the file when it is not a JSON object.
    """
    try:
        with _opened(path) as file:
            record = json.loads(file.read())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path}: is not a readable JSON record: {error}") from error
    if not isinstance(record, dict):
        raise LabError(f"{path}: holds a {type(record).__name__} where a JSON object belongs")
    return {key: _meant(value) for key, value in record.items()}


def _opened(path: Path) -> BinaryIO:
    """Open without waiting: a named pipe in one run directory must not hang whoever lists all runs."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "is not a regular file", str(path))
    return file


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Add one line with one write, so that a reader meanwhile sees whole lines and at most one torn end.

    When the disk is full the file is left as it was, and that is a `LabError`.
    """
    line = json.dumps(_spelled(record), separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode() + b"\n"
    try:
        handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line  # what a kill tore must not swallow this line too
            if os.write(handle, line) < len(line):
                os.ftruncate(handle, size)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(handle)
    except OSError as error:
        raise unwritable(path, error) from error


def read_lines(path: Path) -> Iterator[Record]:
    """Yield the whole lines there are: neither a torn end (a write in progress) nor what a kill tore before."""
    try:
        file = _opened(path)
    except FileNotFoundError:
        return
    with file:
        for raw in file:
            record = _line(raw)
            if record is not None:
                yield record


def last_lines(path: Path, size: int = 16_384) -> list[Record]:
    """The whole lines in the last `size` bytes of the file, oldest first; none where there is no such file."""
    try:
        with _opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return [record for raw in file if (record := _line(raw)) is not None]
    except OSError:
        return []


class Tail:
    """Reads a growing file of lines: each call to `new` yields what came since the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def new(self) -> list[Record]:
        """The whole lines added since the last call; from the start when the file was made anew."""
        try:
            with _opened(self._path) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                whole = file.read()
        except FileNotFoundError:
            return []
        lines = whole[: whole.rfind(b"\n") + 1].split(b"\n")
        self._offset += sum(len(raw) + 1 for raw in lines[:-1])
        return [record for raw in lines[:-1] if (record := _line(raw + b"\n")) is not None]


def torn_lines(path: Path) -> int:
    """How many lines of the file are not whole records, a torn end included."""
    if not path.is_file():
        return 0
    with _opened(path) as file:
        return sum(1 for raw in file if _line(raw) is None)


def sweep(folder: Path) -> None:
    """Remove what a write that was killed left behind; only when nothing writes there any more."""
    for leftover in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def unwritable(path: Path, error: OSError) -> LabError:
    """The error of a file that cannot be written, with what to do about the usual reasons."""
    return LabError(f"{path}: cannot be written: {error.strerror or error}", _REMEDIES.get(error.errno or 0, _REMEDY))


def _sync_folder(folder: Path) -> None:
    """Let the rename survive a power cut; a file system that cannot sync folders keeps the rest of the promise."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _line(raw: bytes) -> Record | None:
    if not raw.endswith(b"\n"):
        return None
    try:
        record = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    return {key: value if type(value) in _NUMBERS else _meant(value) for key, value in record.items()}


def _spelled(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str):
        return f"\\{value}" if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {str(key): _spelled(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(inner) for inner in value]
    return value


def _meant(value: object) -> object:
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else value.removeprefix("\\") if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: _meant(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_meant(inner) for inner in value]
    return value
