"""Printing the logs of a run, at once or as they grow."""

from __future__ import annotations

import codecs
import sys
import time
from typing import TYPE_CHECKING

from lab.cli.output import console, near, plain, print_json, warn
from lab.cli.streams import end_if_lost
from lab.compare.formats import size
from lab.errors import LabError, UsageError, did_you_mean
from lab.runs import logs, records, regular
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.runs.directory import RunDirectory

POLL_SECONDS = 0.3
LINE_BYTES = 4096
"""Lines of a log are taken to be no longer than this in the mean: so far back the last ones are looked for."""
LEAST_BYTES = 1 << 20
JSON_BYTES = 1 << 24
"""A JSON document is made as a whole; a log is printed piece by piece."""


def show(run: RunDirectory, stage: str | None, lines: int | None, *, follow: bool, raw: bool, as_json: bool) -> None:
    """Print the logs that there are, and with `follow` what comes until the run has ended.

    With `raw` they are printed as they were written, else each line as a terminal shows it in the end. A log that
    cannot be read is named and the others are printed; `LabError` when it is the one asked for.
    """
    try:
        records.count_lines(run.stages)
    except LabError as error:
        warn(near(error.what))
    names = _chosen(run, stage, follow=follow)
    if as_json:
        paths = {name: run.logs / f"{name}.log" for name in names}
        print_json({name: _lines(path, lines, alone=stage is not None, raw=raw) for name, path in paths.items()})
        return
    printed: dict[str, _Log] = {}
    while True:
        ended = not follow or status(run).final  # asked before reading: what was written until then is printed
        for name in _chosen(run, stage, follow=follow):
            log = printed.setdefault(name, _Log(run.logs / f"{name}.log", lines, alone=stage is not None, raw=raw))
            log.print_new()
            if ended:
                log.finish()
        if ended:
            return
        time.sleep(POLL_SECONDS)


class _Log:
    """A log of which a part is printed."""

    def __init__(self, path: Path, lines: int | None, *, alone: bool, raw: bool) -> None:
        self._path = path
        self._lines = lines
        self._alone = alone
        self._raw = raw
        self._open_line = ""
        self._offset: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._broken = False

    def print_new(self) -> None:
        """Print what is not printed yet, piece by piece; nothing as long as there is no log."""
        if self._broken:
            return
        try:
            file = regular.opened(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            self._broken = True
            _tell(self._path, error, alone=self._alone)
            return
        with file:
            if self._offset is None:
                self._offset = self._begin(logs.start_of_last(file, self._lines, _within(self._lines)))
            file.seek(self._offset)
            while block := file.read(logs.BLOCK_BYTES):
                self._write(self._decoder.decode(block))
                end_if_lost()
            self._offset = file.tell()
        sys.stdout.flush()
        end_if_lost()

    def finish(self) -> None:
        """Print the line that has no end yet, and what a character that never became whole stands for."""
        self._write(self._decoder.decode(b"", final=True))
        sys.stdout.write(plain(logs.shown(self._open_line)).plain)

    def _write(self, text: str) -> None:
        """Print whole lines; the last one waits for its end, because a carriage return may still take it back."""
        if self._raw:
            sys.stdout.write(text)
            return
        *whole, line = (self._open_line + text).split("\n")
        sys.stdout.writelines(f"{plain(logs.shown(one)).plain}\n" for one in whole)
        self._open_line = line[logs.begin_of_shown(line) :]
        if len(self._open_line) > logs.BLOCK_BYTES:  # no progress bar, and it may never end
            sys.stdout.write(plain(self._open_line).plain)
            self._open_line = ""

    def _begin(self, place: logs.Place) -> int:
        """Where to begin; of a whole log at its start."""
        if not self._alone:
            console(stderr=True).print(plain(f"== {self._path.stem}", "bold"))
        if self._lines is None:
            return 0
        if place.cut:
            _tell_cut(self._path, place.start)
        return place.start


def _within(lines: int | None) -> int:
    return LEAST_BYTES if lines is None else max(LEAST_BYTES, lines * LINE_BYTES)


def _tell(log: Path, error: OSError, *, alone: bool) -> None:
    told = regular.unreadable(log, error)
    if alone:
        raise told from error
    warn(near(told.what))


def _tell_cut(log: Path, bytes_: int) -> None:
    warn(f"{near(log)}: its first {size(bytes_)} are left out.")


def _chosen(run: RunDirectory, stage: str | None, *, follow: bool) -> list[str]:
    """The stages with a log, in the order in which they first started."""
    names = [name for name in dict.fromkeys(_started(run)) if (run.logs / f"{name}.log").exists()]
    if stage is None:
        return names or (["runner"] if (run.logs / "runner.log").exists() else [])
    if stage not in (*names, "runner") and not follow:
        raise UsageError(f"{run.id} has no log of a stage '{stage}'.", did_you_mean(stage, names))
    return [stage]


def _started(run: RunDirectory) -> Iterator[str]:
    """The stages in the order in which they started; where nothing tells it, all that have a log."""
    try:
        lines = list(records.read_lines(run.stages))
    except LabError:  # told once, by `show`
        yield from sorted(path.stem for path in run.logs.glob("*.log"))
        return
    for line in lines:
        name = line.get("stage")
        if line.get("event") == "started" and isinstance(name, str):
            yield name


def _lines(log: Path, lines: int | None, *, alone: bool, raw: bool) -> list[str] | None:
    """The lines for JSON; None for a log that cannot be read."""
    try:
        found = logs.end(log, lines, JSON_BYTES if lines is None else min(JSON_BYTES, _within(lines)), raw=raw)
    except FileNotFoundError:
        return []
    except OSError as error:
        _tell(log, error, alone=alone)
        return None
    if found.cut:
        _tell_cut(log, found.earlier_bytes)
    return found.lines
