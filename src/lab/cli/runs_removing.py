"""Deleting runs: only directories that are runs, only those that are not at work, and never through a link."""

from __future__ import annotations

import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

import typer

from lab.cli.output import plain
from lab.cli.output import show as output
from lab.compare.formats import counted, size
from lab.errors import LabError, UsageError
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.runs.directory import RunDirectory


STARTING_SECONDS = 60.0
"""A run that was created and did not start within this was left behind by a kill."""


def remove(runs: Sequence[RunDirectory], *, yes: bool, dry_run: bool = False) -> None:
    """Delete the runs after a question, or only say what would go."""
    for run in runs:
        _require_at_rest(run)
    if dry_run:
        for run in {run.path: run for run in runs}.values():
            files = [path for path in run.path.rglob("*") if path.is_symlink() or path.is_file()]
            bytes_ = size(sum(path.lstat().st_size for path in files))
            output(plain(f"would delete {run.id}: {counted(len(files), 'file')}, {bytes_}"))
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Deleting runs needs a yes, and nobody is here to say it.", "Say it with --yes.")
        names = "\n".join(f"  {run.id}" for run in runs)
        typer.confirm(f"{names}\nDelete {'this run' if len(runs) == 1 else f'these {len(runs)} runs'}?", abort=True)
    for run in {run.path: run for run in runs}.values():
        _delete(run)
        output(plain(f"deleted {run.id}"))


def _require_at_rest(run: RunDirectory) -> None:
    """Raise `UsageError` for a run whose files somebody uses, and for what is no directory of its own."""
    if run.path.is_symlink():
        raise UsageError(f"{run.path} is a link, not a run's own directory.", "Remove the link itself: rm")
    word = status(run).word
    if word == "running":
        raise UsageError(f"{run.id} is running: its files are in use.", f"Stop it first: lab runs stop {run.id}")
    age_seconds = abs(time.time() - run.config.stat().st_mtime)  # a clock may be set back
    if word == "created" and age_seconds < STARTING_SECONDS:
        raise UsageError(f"{run.id} is just being started.", "Try again in a minute.")


def _delete(run: RunDirectory) -> None:
    """Take the name away first, so that no half-deleted run is ever listed."""
    away = run.path.with_name(f".{run.id}.deleted")
    try:
        os.rename(run.path, away)
    except OSError as error:
        raise LabError(
            f"{run.path}: cannot be deleted: {error.strerror}", "Nothing of it was. Try again as the folder's owner."
        ) from error
    try:
        shutil.rmtree(away)
    except OSError as error:
        raise LabError(f"{run.path}: cannot be deleted: {error.strerror}", f"What is left lies in {away}.") from error
