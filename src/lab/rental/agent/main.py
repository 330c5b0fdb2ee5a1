"""Process 1 of the machine: serve, count down, never exit, because a container that exits is started again, billed."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import traceback
from pathlib import Path

from . import durable, install, machine
from .desk import Desk
from .life import Life
from .paths import SAFE_ID, Places
from .selfstop import SelfStop
from .server import Server
from .work import Work

TICK_SECONDS = 1.0
SAVING_SECONDS = 120.0
AGAIN_SECONDS = 600.0
SECRETS_FD = "LAB_SECRETS_FD"
OWN = ("LAB_RUN_ID", "LAB_OWNER", "LAB_NONCE", "LAB_TOKEN_SHA256", "LAB_AGENT_PORT", "LAB_WORKSPACE",
       "LAB_LEASE_SECONDS", "LAB_LIMIT_SECONDS", "LAB_SELF_STOP", SECRETS_FD)  # fmt: skip
"""Variables for the agent alone: no stage sees them."""


def main() -> int:
    """The agent, or one of the small programs that it brings along."""
    if sys.argv[1:2] == ["install"]:
        return install.main(durable.read(Path(sys.argv[2])))
    environment = dict(os.environ)
    secrets = _secrets(environment)
    while True:
        try:
            _serve(environment, secrets)
        except Exception:
            traceback.print_exc()
        time.sleep(5.0)


def _secrets(environment: dict[str, str]) -> dict[str, str]:
    """What the bootstrap took out of this process's environment, from the pipe that it left."""
    number = environment.get(SECRETS_FD)
    if number is None:
        return {}
    with os.fdopen(int(number), "rb") as pipe:
        found = json.loads(pipe.read() or b"{}")
    return {str(name): str(value) for name, value in found.items()}


def _serve(environment: dict[str, str], secrets: dict[str, str]) -> None:
    run_id = environment["LAB_RUN_ID"]
    if not SAFE_ID.match(run_id):
        raise ValueError(f"LAB_RUN_ID {run_id!r} cannot name a folder")
    places = Places(Path(environment["LAB_WORKSPACE"]), run_id)
    nonce = environment["LAB_NONCE"]
    idle, limit = float(environment["LAB_LEASE_SECONDS"]), float(environment["LAB_LIMIT_SECONDS"])
    life = Life(places.state / "life.json", nonce, idle, limit)
    for_stages = {name: value for name, value in environment.items() if name not in OWN}
    kills = machine.memory_kills()
    work = Work(places, life.boot_id, for_stages, life.job_ended)
    desk = Desk(nonce, environment["LAB_TOKEN_SHA256"], places, life, work, kills)
    ways = SelfStop(json.loads(environment.get("LAB_SELF_STOP", "[]")), {**environment, **secrets})
    desk.self_stop_notices = ways.notices
    threading.Thread(target=_count_down, args=(life, work, ways), daemon=True).start()
    server = Server(("0.0.0.0", int(environment["LAB_AGENT_PORT"])), desk)
    with server:
        server.serve_forever()


def _count_down(life: Life, work: Work, ways: SelfStop) -> None:
    """Once the time is over, let the job save, then stop the machine; if it will not stop, go on serving and retry."""
    while True:
        time.sleep(TICK_SECONDS)
        life.tick()
        why = life.due(work.running)
        if why is None:
            continue
        print(f"stopping this machine: {why}", flush=True)  # noqa: T201 - the container's log
        end_job(work)
        ways.attempt()
        time.sleep(AGAIN_SECONDS)


def end_job(work: Work, sleep_seconds: float = TICK_SECONDS) -> None:
    """Ask the job to save and wait until it has, or the grace is over."""
    work.stop(SAVING_SECONDS - 2 * TICK_SECONDS)
    until = time.monotonic() + SAVING_SECONDS
    while work.running and time.monotonic() < until:
        time.sleep(sleep_seconds)
