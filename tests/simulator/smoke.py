"""`make smoke-runpod`: train the smoke experiment on a simulated RunPod, with the same command as on the real one.

Only the addresses and the key differ from the real thing: the Pod is a process group on this machine, its GPU is a
name, and the bill is play money.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
SIMULATOR = [sys.executable, "-m", "tests.simulator", "--factor", "1", "--boot", "3"]
RUN = [sys.executable, "-m", "lab", "run", "smoke", "--backend", "runpod", "--yes"]


def main() -> int:
    """Run the command, then ask the cloud itself whether anything is left."""
    with subprocess.Popen(SIMULATOR, cwd=REPOSITORY, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as simulator:
        try:
            assert simulator.stdout is not None
            cloud = json.loads(simulator.stdout.readline())
            code = subprocess.run([*RUN, *sys.argv[1:]], cwd=REPOSITORY, env=environment(cloud), check=False).returncode
            return code or left_behind(cloud["control_url"])
        finally:
            simulator.terminate()


def environment(cloud: dict[str, str]) -> dict[str, str]:
    """This process's own, with the simulated cloud in the real one's place."""
    return {
        **os.environ,
        "LAB_RUNPOD_API_URL": cloud["api_url"],
        "LAB_RUNPOD_PROXY_URL": cloud["proxy_url"],
        "LAB_RUNPOD_GRAPHQL_URL": cloud["api_url"].removesuffix("/v2") + "/graphql",
        "RUNPOD_API_KEY": cloud["key"],
    }


def left_behind(control_url: str) -> int:
    """Say what the cloud knows; 1 when a Pod is still alive."""
    pods, bill = (read(f"{control_url}/{what}") for what in ("pods", "bill"))
    alive = [pod["id"] for pod in pods["pods"] if pod["alive"]]
    sys.stdout.write(
        f"simulated RunPod: {len(pods['pods'])} Pod, ${bill['spent']:.4f}, left alive: {alive or 'none'}\n"
    )
    return int(bool(alive))


def read(url: str) -> dict[str, object]:
    """One answer of the control interface."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return dict(json.load(answer))


if __name__ == "__main__":
    sys.exit(main())
