"""The two commands of the worker: one argument, the run directory; what goes wrong becomes a message and an exit code.

The last line of a log says what a person needs to know: of a part that raised, which plugin it comes from.
"""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.here import remembered
from lab.runs.directory import RunDirectory
from lab.worker.process import let_threads_sleep

if TYPE_CHECKING:
    from collections.abc import Callable


def run_command(description: str, work: Callable[[RunDirectory], int]) -> int:
    """Do the work for the run named on the command line; return the exit code."""
    from lab.plugins import told_apart  # late: signals must be heard before anything slow is imported

    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("run", type=Path, metavar="RUN", help="the run directory")
    path = parser.parse_args().run.absolute()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout, force=True)
    let_threads_sleep()
    try:
        with remembered(), told_apart():
            return work(RunDirectory.open(path))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a part that exits has ended the training, whatever code it likes to give
        sys.stdout.flush()
        what, code = _explained(error)
        sys.stderr.write(f"Error: {what}\n")
        return code


def _explained(error: BaseException) -> tuple[str, int]:
    """What to say and the exit code; where code is at fault and not the input, its traceback is printed first."""
    from lab.plugins import BrokenPart, Plugins, blame  # late, as above
    from lab.settings import read_settings

    if not isinstance(error, LabError):
        traceback.print_exception(error)
        return blame.told(error, Plugins(read_settings().blocked_plugins).installed), 1
    if isinstance(error, BrokenPart):
        traceback.print_exception(error.__cause__)
    return str(error), error.exit_code
