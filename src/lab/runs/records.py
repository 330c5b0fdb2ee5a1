"""Reading and writing a run's records: atomic JSON files, and JSON lines that survive a kill."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from typing import TYPE_CHECKING, Any, BinaryIO

from lab.errors import LabError
from lab.runs import regular
from lab.runs.spelling import meant, parsed, spelled, spells_none

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Record = dict[str, Any]
PART = ".part"
_LARGEST_RECORD_BYTES = 1 << 28


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Replace the file as a whole: a reader sees the old record or the new one, never a part.

    Raises `LabError` when the disk refuses, or for a record that would not be read again, and keeps the old one.
    """
    write_bytes(path, _spelled(path, record, _LARGEST_RECORD_BYTES, indent=2, ensure_ascii=False))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a neighbour, sync it and rename it; a failure is a `LabError`, and the neighbour is gone."""
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A neighbour to write into, which is synced and takes the file's place when all is written, as `write_bytes`."""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
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
        raise regular.unwritable(path, error) from error


def read_json(path: Path) -> Record | None:
    """The record, or None where there is no such file.

    Raises `LabError` naming the file when it is not a JSON object.
    """
    try:
        with regular.opened(path) as file:
            if (size := os.fstat(file.fileno()).st_size) > _LARGEST_RECORD_BYTES:
                raise LabError(f"{path}: is not a readable JSON record: no record has {size:,} bytes")
            record = parsed(file.read())
        if not isinstance(record, dict):
            raise LabError(f"{path}: holds a {type(record).__name__} where a JSON object belongs")
        return {key: meant(value) for key, value in record.items()}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path}: is not a readable JSON record: {error}") from error


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Add one line with one write, so that a reader meanwhile sees whole lines and at most one torn end.

    When the disk is full, or the line would not be read again, the file is left as it was, and that is a `LabError`.
    """
    line = _spelled(path, record, regular.LONGEST_LINE_BYTES, separators=(",", ":"))
    try:
        handle = regular.descriptor(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
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
        raise regular.unwritable(path, error) from error


def sync(path: Path) -> None:
    """Let the lines added so far survive a power cut. Raises `LabError` when the disk refuses."""
    try:
        handle = regular.descriptor(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise regular.unwritable(path, error) from error


def read_lines(path: Path) -> Iterator[Record]:
    """Yield the whole lines there are: neither a torn end (a write in progress) nor what a kill tore before.

    Raises `LabError` naming the file when it cannot be read.
    """
    return (record for raw in _raw_lines(path) if (record := _line(raw)) is not None)


def count_lines(path: Path) -> int:
    """How many lines the file has, torn ones included; none where there is no such file. Raises as `read_lines`."""
    return sum(1 for _ in _raw_lines(path))


def torn_lines(path: Path) -> int:
    """How many lines of the file are not whole records, a torn end included. Raises as `read_lines`."""
    return sum(1 for raw in _raw_lines(path) if _line(raw) is None)


def last_lines(path: Path, size: int = 16_384) -> list[Record]:
    """The whole lines in the last `size` bytes of the file, oldest first; none where it is not there to be read."""
    try:
        with regular.opened(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - size))
            return [record for raw in file if (record := _line(raw)) is not None]
    except OSError:
        return []


class Tail:
    """Reads a growing file of lines: each call to `new` gives what came since the one before."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._told = False

    def new(self) -> list[Record]:
        """The whole lines added since the last call; from the start when the file was made anew.

        Raises `LabError` naming the file when it cannot be read, once: whoever goes on asking hears nothing more.
        """
        found = []
        try:
            with regular.opened(self._path) as file:
                if os.fstat(file.fileno()).st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                for raw in regular.lines(file):
                    if raw.endswith(b"\n"):
                        self._offset = file.tell()
                        found.append(_line(raw))
        except FileNotFoundError:
            return []
        except OSError as error:
            if not self._told:
                self._told = True
                raise regular.unreadable(self._path, error) from error
        return [record for record in found if record is not None]


def sweep(folder: Path) -> None:
    """Remove what a write that was killed left behind; only when nothing writes there any more."""
    for leftover in folder.glob(f".*{PART}"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def _spelled(path: Path, record: Mapping[str, object], most_bytes: int, **style: Any) -> bytes:
    try:
        text = json.dumps(spelled(record), allow_nan=False, **style) + "\n"
    except ValueError as error:
        raise LabError(f"{path}: cannot be recorded: {error}") from error
    content = text.encode("utf-8", "backslashreplace")
    if len(content) > most_bytes:
        raise LabError(f"{path}: cannot be recorded: {len(content):,} bytes, and at most {most_bytes:,} are read")
    return content


def _raw_lines(path: Path) -> Iterator[bytes]:
    try:
        with regular.opened(path) as file:
            yield from regular.lines(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise regular.unreadable(path, error) from error


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
        record = parsed(raw)
        if not isinstance(record, dict):
            return None
        if spells_none(raw):  # as nearly always: a long run's lines are read in half a second
            return record
        return {key: meant(value) for key, value in record.items()}
    except (ValueError, RecursionError):
        return None
