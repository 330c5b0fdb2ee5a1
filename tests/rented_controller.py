"""A controller in a process of its own, for tests that send it signals: rents, follows, collects as `lab run` does.

    python rented_controller.py ORDER.json

The order names the addresses, the key, the store, the run directory and the factor of time. What happened is said on
standard error; an error that a person would see decides the exit code, as in the command.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))


from lab.conformance import ScaledClock
from lab.errors import LabError
from lab.rental import archive
from lab.rental.backend import RentedBackend
from lab.runs.directory import RunDirectory
from lab_runpod.options import RunPodOptions
from lab_runpod.provider import RunPodProvider
from lab_runpod.settings import RunPodSettings


def main() -> int:
    order = json.loads(Path(sys.argv[1]).read_text())
    options = RunPodOptions(**order["options"])
    settings = RunPodSettings(**order["settings"])
    clock = ScaledClock(order["factor"])
    provider = RunPodProvider(options, settings)
    backend = RentedBackend(provider, options, store=Path(order["store"]), clock=clock, say=say)
    run = RunDirectory(Path(order["run"]))
    try:
        receipt = backend.submit(archive.job_of(run), run)
        while (state := backend.state(receipt)).phase not in ("finished", "lost"):
            clock.sleep(1.0)
        missing = backend.fetch(receipt, run)
    except LabError as error:
        say(str(error))
        return error.exit_code
    say(json.dumps({"phase": state.phase, "exit_code": state.exit_code, "missing": list(missing)}))
    return 0


def say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
