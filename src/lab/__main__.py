"""The `lab` command, and `python -m lab`: quiet also when Ctrl-C comes while its modules are still being read."""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command line and exit with the code that says how it ended."""
    try:
        from lab.cli import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
