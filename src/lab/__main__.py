"""The `lab` command, and `python -m lab`: quiet also when Ctrl-C comes while its modules are still being read."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with the code that says how it ended; as a stage of a run, without waiting long."""
    try:
        from lab.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as error:
        from lab.lingering import STAGE, exit_soon

        if STAGE in os.environ and isinstance(error.code, int):
            exit_soon(error.code)
        raise


if __name__ == "__main__":
    main()
