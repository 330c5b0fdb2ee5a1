"""Tracker: mirrors a run directory into MLflow, W&B or the like, and reads nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory


class Tracker(Protocol):
    """Runs in a process of its own, so that it can neither slow nor end a run."""

    def sync(self, run: RunDirectory) -> str | None:
        """Bring the mirror up to date with the directory and return its link: incremental, and safe to repeat."""
        ...
