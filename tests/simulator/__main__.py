"""Serve a simulator until interrupted: `python -m tests.simulator --factor 60`.

Prints one line of JSON with its addresses and its key once it answers.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
from pathlib import Path

from .scenario import Scenario
from .server import ACCOUNT_KEY, Simulator


def main() -> int:
    """Start, say where, wait, and end every Pod."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--factor", type=float, default=60.0, help="simulated seconds in a real one")
    parser.add_argument("--boot", type=float, help="simulated seconds from a Pod's creation to its first answer")
    parser.add_argument("--seed", type=int, default=0, help="of faults with a rate")
    parser.add_argument("--packages", type=Path, help="a folder of packages that every image's Python has")
    parser.add_argument("--folder", type=Path, help="where Pods have their disks; kept afterwards")
    parser.add_argument("--key", default=ACCOUNT_KEY, help="the account's API key")
    arguments = vars(parser.parse_args())
    boot = arguments.pop("boot")
    end = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: end.set())
    with Simulator(account_key=arguments.pop("key"), **arguments) as simulator:
        if boot is not None:
            simulator.cloud.usual = Scenario(provisioning=boot / 3, starting=boot / 3, route=boot / 3)
        addresses = {
            "api_url": simulator.api_url,
            "proxy_url": simulator.proxy_url,
            "control_url": f"{simulator.url}/control",
            "key": simulator.account_key,
        }
        sys.stdout.write(json.dumps(addresses) + "\n")
        sys.stdout.flush()
        end.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
