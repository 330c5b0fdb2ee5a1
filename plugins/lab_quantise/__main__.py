"""The stages' commands: `python -m lab_quantise make RUN`, then `python -m lab_quantise quantise RUN`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lab.errors import LabError
from lab.runs.directory import RunDirectory
from lab_quantise import stages

COMMANDS = {"make": stages.make, "quantise": stages.quantise}


def main(arguments: list[str] | None = None) -> int:
    """Run one command on one run directory; its exit code is that of the stage."""
    parser = argparse.ArgumentParser(prog="lab_quantise", description="Quantise a small tensor file to 8 bits.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("run", type=Path, help="the run directory")
    given = parser.parse_args(arguments)
    try:
        said = COMMANDS[given.command](RunDirectory.open(given.run))
    except LabError as error:
        sys.stderr.write(f"Error: {error}\n")
        return error.exit_code
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
