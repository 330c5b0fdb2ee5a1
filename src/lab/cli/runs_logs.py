"""Printing the logs of a run, at once or as they grow."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from lab.cli.output import console, plain, print_json
from lab.errors import UsageError, did_you_mean
from lab.runs import records
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.runs.directory import RunDirectory

POLL_SECONDS = 0.3


def show(run: RunDirectory, stage: str | None, lines: int | None, *, follow: bool, as_json: bool) -> None:
    """Print the logs that there are, and with `follow` what comes until the run has ended."""
    names = _chosen(run, stage, follow=follow)
    if as_json:
        print_json({name: _lines(run.logs / f"{name}.log", lines) for name in names})
        return
    printed: dict[str, int] = {}
    headings = stage is None
    while True:
        ended = not follow or status(run).final  # asked before reading: what was written until then is printed
        for name in _chosen(run, stage, follow=follow):
            _print_new(run.logs / f"{name}.log", name, printed, None if name in printed else lines, headings)
        if ended:
            return
        time.sleep(POLL_SECONDS)


def _print_new(log: Path, name: str, printed: dict[str, int], lines: int | None, headings: bool) -> None:
    if not log.is_file():
        return
    if name not in printed and headings:
        console(stderr=True).print(plain(f"== {name}", "bold"))
    with log.open("rb") as file:
        file.seek(printed.get(name, 0))
        text = file.read()
        printed[name] = file.tell()
    words = text.decode("utf-8", "replace").split("\n")
    kept = words if lines is None else words[-lines - 1 :]
    sys.stdout.write(plain("\n".join(kept)).plain)
    sys.stdout.flush()


def _chosen(run: RunDirectory, stage: str | None, *, follow: bool) -> list[str]:
    """The stages with a log, in the order in which they first started."""
    names = list(dict.fromkeys(_started(run)))
    if stage is None:
        return names or (["runner"] if (run.logs / "runner.log").is_file() else [])
    if stage not in (*names, "runner") and not follow:
        raise UsageError(f"{run.id} has no log of a stage '{stage}'.", did_you_mean(stage, names))
    return [stage]


def _started(run: RunDirectory) -> Iterator[str]:
    for line in records.read_lines(run.stages):
        name = line.get("stage")
        if line.get("event") == "started" and isinstance(name, str) and (run.logs / f"{name}.log").is_file():
            yield name


def _lines(log: Path, lines: int | None) -> list[str]:
    words = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    return words if lines is None else words[-lines:]
