"""Stopping a run from another terminal than the one that started it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.output import plain
from lab.cli.output import show as output
from lab.errors import UsageError
from lab.launch import recording, resume
from lab.runs import records
from lab.runs.status import status

if TYPE_CHECKING:
    from lab.contracts import Backend
    from lab.plugins import Plugins
    from lab.runs.directory import RunDirectory


def stop(run: RunDirectory, plugins: Plugins, *, now: bool) -> None:
    """Ask the run's backend to stop it, or with `now` to end it."""
    receipt = recording.read_receipt(run)
    standing = status(run).word
    if receipt is None or standing != "running":
        raise UsageError(f"{run.id} is not running: it is {standing}.")
    choice = resume.recorded_backend(records.read_json(run.config) or {})
    backend: Backend = plugins.build("backend", choice)
    if now:
        backend.delete(receipt)
        output(plain(f"{run.id}: ended"))
    else:
        backend.stop(receipt)
        output(plain(f"{run.id}: asked to stop: it finishes its step and saves"))
