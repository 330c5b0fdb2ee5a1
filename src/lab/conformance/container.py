"""Runs one command as a container's main process, and leaves nothing of it alive when it shall end.

Started by path as a process of its own. Its standard input brings one line of JSON (argv, env, cwd, log) and is then a
life-line: when it closes, also because whoever held it died, every process that the command started is killed.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys

import psutil

ADOPT_ORPHANS = 36
"""PR_SET_CHILD_SUBREAPER: a process that leaves its session stays a descendant of this one."""
LOOK_SECONDS = 0.05


def main() -> int:
    """Run the command to its end, or until the life-line closes; return its exit code."""
    order = json.loads(sys.stdin.buffer.readline())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever holds the life-line
    with open(order["log"], "ab", buffering=0) as log:
        process = subprocess.Popen(
            order["argv"],
            env=order["env"],
            cwd=order["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    while process.poll() is None:
        readable, _, _ = select.select([sys.stdin], [], [], LOOK_SECONDS)
        if readable and not os.read(0, 1024):
            break
    kill_descendants()
    return process.wait()


def kill_descendants() -> None:
    """Kill them all, again until none is left: a dying process may still fork."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(children, timeout=1)


if __name__ == "__main__":
    sys.exit(main())
