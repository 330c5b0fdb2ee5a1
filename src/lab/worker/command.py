"""The two commands of the worker: one argument, the run directory; a LabError becomes a message and its exit code."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs.directory import RunDirectory
from lab.worker.process import let_threads_sleep

if TYPE_CHECKING:
    from collections.abc import Callable


def run_command(description: str, work: Callable[[RunDirectory], int]) -> int:
    """Do the work for the run named on the command line; return the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run directory")
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    let_threads_sleep()
    try:
        return work(RunDirectory.open(parser.parse_args().run))
    except LabError as error:
        sys.stdout.flush()
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code
