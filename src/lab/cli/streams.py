"""The standard streams: what a command prints may get lost, and what it does may not depend on that."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UNREAD = 141
"""What a shell says of a program that SIGPIPE ended: whoever read its output had enough."""


class Guarded(io.FileIO):
    """A standard stream that remembers why it took no more, instead of ending the command in the midst of its work."""

    def __init__(self, number: int, *, closed: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self.failure: OSError | None = None
        self.matters = True
        self._closed_before = closed

    def write(self, data: ReadableBuffer, /) -> int:
        """Write what the stream takes; all of it counts as written once the stream has failed."""
        try:
            return self._written(data) if self.failure is None else memoryview(data).nbytes
        except OSError as error:
            self.failure = error
            return memoryview(data).nbytes

    def _written(self, data: ReadableBuffer) -> int:
        if self._closed_before:
            raise OSError(errno.EBADF, "it was closed")
        while (count := super().write(data)) is None:  # another program made it one that does not wait
            select.select((), (self,), ())
        return count


def guard() -> None:
    """Put guards in the place of standard output and error; call once, before anything is printed."""
    closed = _filled()
    sys.stdout = _guarded(sys.stdout, 1, closed)
    sys.stderr = _guarded(sys.stderr, 2, closed)


def ending(code: int) -> int:
    """The code to exit with: that of the command, unless it says all went well and its output is lost."""
    stream = _guard_of(sys.stdout)
    if stream is None:
        return code
    sys.stdout.flush()
    if code or stream.failure is None or not stream.matters:
        return code
    if stream.failure.errno == errno.EPIPE:
        return UNREAD
    from lab.cli.output import error_line

    what = f"standard output cannot be written: {stream.failure.strerror}"
    error_line(what, "What it printed is lost, and nothing else.")
    return 1


def end_if_lost() -> None:
    """End a command that only prints and would go on for nobody."""
    stream = _guard_of(sys.stdout)
    if stream is not None and stream.failure is not None:
        raise SystemExit(0)  # `ending` has the code


def let_be_lost() -> None:
    """Say that the command's exit code means something else than whether its output was taken."""
    stream = _guard_of(sys.stdout)
    if stream is not None:
        stream.matters = False


def _filled() -> set[int]:
    """Open /dev/null where the shell closed a standard stream, as `<&-` does; the numbers of those.

    The next file to be opened would take its number, and a library that reads or prints would meet that file.
    """
    closed = set()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
            closed.add(number)
    return closed


def _guarded(stream: TextIO | None, number: int, closed: set[int]) -> TextIO:
    """The stream under guard, and showing a stand-in for what its encoding lacks; a test's own stays without."""
    if stream is not None and (_guard_of(stream) is not None or _number(stream) != number):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
        return stream
    raw = Guarded(number, closed=number in closed)
    at_once = getattr(stream, "write_through", False)
    return io.TextIOWrapper(
        raw if at_once else io.BufferedWriter(raw),  # as Python makes its own with -u
        encoding=stream.encoding if stream is not None else "utf-8",
        errors="backslashreplace",
        line_buffering=getattr(stream, "line_buffering", True),
        write_through=at_once,
    )


def _guard_of(stream: object) -> Guarded | None:
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    return raw if isinstance(raw, Guarded) else None


def _number(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, ValueError):
        return None
