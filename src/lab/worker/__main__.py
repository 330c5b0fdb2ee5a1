"""`python -m lab.worker RUN` trains the run whose directory is RUN, from its checkpoint if it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.lingering import exit_soon
from lab.worker.command import run_command
from lab.worker.stop import Stop

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory


def main() -> int:
    """Train; return the exit code."""
    stop = Stop.on_signals()  # before torch is imported, which takes seconds

    def train(run: RunDirectory) -> int:
        from lab.worker.attempt import Attempt

        return Attempt(run, stop).execute()

    return run_command("Train the run whose directory is RUN.", train)


if __name__ == "__main__":
    exit_soon(main())
