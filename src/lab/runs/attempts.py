"""What an attempt leaves behind when the next one goes on from a checkpoint: moved aside, never lost."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, NamedTuple

from lab.runs import records, regular

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.runs.directory import RunDirectory


def rewind_metrics(run: RunDirectory, attempt: int, step: int) -> int:
    """Move the lines after `step`, which `attempt` wrote, out of metrics.jsonl; return how many were moved.

    Killed in between, it can be called again: the lines are written to their new place before they leave the old.
    Raises `LabError` when metrics.jsonl cannot be read.
    """
    try:
        moved = sum(piece.starts and piece.goes for piece in _pieces(run.metrics, step))
    except OSError as error:
        raise regular.unreadable(run.metrics, error) from error
    if moved:
        run.attempts.mkdir(exist_ok=True)
        for target, goes in ((run.earlier_metrics(attempt), True), (run.metrics, False)):
            with records.replacing(target) as file:
                file.writelines(piece.content for piece in _pieces(run.metrics, step) if piece.goes == goes)
    return moved


def put_aside(run: RunDirectory, attempt: int) -> None:
    """Move the figures of `attempt` aside, so that nobody takes them for those of the next one.

    Raises `LabError` for one that cannot be read.
    """
    for record in (run.summary, run.environment, run.outcome):
        try:
            with regular.opened(record) as file:
                run.attempts.mkdir(exist_ok=True)
                with records.replacing(run.earlier(attempt, record)) as copy:
                    shutil.copyfileobj(file, copy)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise regular.unreadable(record, error) from error
    run.summary.unlink(missing_ok=True)


class _Piece(NamedTuple):
    """A line, or a part of one that is too long to be held."""

    content: bytes
    starts: bool
    goes: bool
    """Whether the line is to be moved."""


def _pieces(path: Path, step: int) -> Iterator[_Piece]:
    """Every byte of the file in its order; none where there is no file."""
    try:
        file = regular.opened(path)
    except FileNotFoundError:
        return
    with file:
        starts, goes = True, False
        while content := file.readline(regular.LONGEST_LINE_BYTES):
            goes = _step(content) > step if starts else goes
            yield _Piece(content, starts, goes)
            starts = content.endswith(b"\n")


def _step(line: bytes) -> float:
    """The line's step; what a kill tore belongs to no step and is moved with the rest."""
    try:
        step = json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, LookupError, TypeError, RecursionError):
        step = None
    return step if isinstance(step, int) else float("inf")
