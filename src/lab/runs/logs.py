"""The logs of a run's stages: their ends, found from behind, and their lines one at a time, however long they are.

A stage writes into its log whatever it likes: gigabytes of it, and lines without an end.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from lab.runs import regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BLOCK_BYTES = 1 << 20
SHOWN_BYTES = 20_000
"""What a person looks at of the end of a log that failed."""


@dataclass(frozen=True)
class Place:
    """Where in a log its last lines begin."""

    start: int
    cut: bool
    """Whether that is only as far back as was looked: a line, or some lines, are missing."""


@dataclass(frozen=True)
class End:
    """The last lines of a log, without their line ends, and how many bytes of it stand before them."""

    lines: list[str]
    earlier_bytes: int
    cut: bool


def end(log: Path, lines: int | None = None, within: int = SHOWN_BYTES, *, raw: bool = False, since: int = 0) -> End:
    """The last lines, or all there are, in the last `within` bytes; with `raw` as written, else as `shown`.

    Nothing before the byte `since` is among them. Raises `OSError` for what is no readable file.
    """
    with regular.opened(log) as file:
        size = os.fstat(file.fileno()).st_size
        place = start_of_last(file, lines, min(within, size - since) if 0 <= since <= size else within)
        file.seek(place.start)
        text = file.read(within).decode("utf-8", "replace")
    found = text.removesuffix("\n").split("\n") if text else []
    last = found if lines is None else found[-lines:]
    return End(last if raw else [*map(shown, last)], place.start, place.cut)


def shown(line: str) -> str:
    """What a terminal shows of a line in the end: of a progress bar, its last state."""
    return line[begin_of_shown(line) :].rstrip("\r")


def begin_of_shown(line: str) -> int:
    """Where what is shown of a line begins: behind the last carriage return that something followed."""
    return line.rstrip("\r").rfind("\r") + 1


def start_of_last(file: BinaryIO, lines: int | None, within: int) -> Place:
    """Where the last `lines` lines begin, or the last `within` bytes if these begin later."""
    size = os.fstat(file.fileno()).st_size
    floor = max(0, size - within)
    at, wanted = size - 1, lines  # a line end in the last byte begins no line
    while wanted is not None and at > floor:
        start = max(floor, at - BLOCK_BYTES)
        file.seek(start)
        block = file.read(at - start)
        place = len(block)
        while wanted and (place := block.rfind(b"\n", 0, place)) >= 0:
            wanted -= 1
        if not wanted:
            return Place(start + place + 1, cut=False)
        at = start
    return Place(floor, cut=floor > 0)


def read(log: Path) -> Iterator[str]:
    """Yield the lines without their ends, what a carriage return overwrote too; nothing for what is no file."""
    try:
        file = regular.opened(log)
    except OSError:
        return
    with file:
        for raw in regular.lines(file):
            yield from raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r").split("\r")
