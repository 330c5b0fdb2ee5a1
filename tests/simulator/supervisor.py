"""A container's runtime: runs one command, adopts its orphans, and leaves none of them alive.

Started by path as a process of its own. Its standard input brings one line of JSON (argv, env, cwd, log, grace,
largest_file) and is then the life-line: when it closes, for whatever reason, the container is stopped.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time

import psutil

ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER: a process that leaves its session still ends with its container


def main() -> int:
    """Run the command to its end, or until the life-line closes; return its exit code as a shell would."""
    order = json.loads(sys.stdin.buffer.readline())
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(ADOPT_ORPHANS, 1, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with open(order["log"], "ab", buffering=0) as log:
        try:
            process = subprocess.Popen(
                order["argv"],
                env=order["env"],
                cwd=order["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                restore_signals=True,
                preexec_fn=lambda: _prepare(order["largest_file"]),
            )
        except OSError as error:
            log.write(f"exec {order['argv'][0]}: {error.strerror}\n".encode())
            return 127
        code = _watch(process, order["grace"])
        _end_all()
        return code


def _prepare(largest_file: int | None) -> None:
    """In the container, before its command: the usual signals, and the disk's limit."""
    if largest_file is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _watch(process: subprocess.Popen[bytes], grace: float) -> int:
    """Wait for the main process; on the end of the life-line stop it as `docker stop` does."""
    while process.poll() is None:
        _reap(process)
        readable, _, _ = select.select([sys.stdin], [], [], 0.02)
        if readable and not os.read(0, 1024):
            process.terminate()
            deadline = time.monotonic() + grace
            while process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            break
    code = process.poll()
    if code is None:
        process.kill()
        code = process.wait()
    return code if code >= 0 else 128 - code


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Bury adopted orphans; the main process is left to its own `poll`."""
    for child in psutil.Process().children():
        try:
            if child.pid != process.pid and child.status() == psutil.STATUS_ZOMBIE:
                os.waitpid(child.pid, os.WNOHANG)
        except (psutil.NoSuchProcess, ChildProcessError):
            continue


def _end_all() -> None:
    """Kill every descendant, again until none is left: a dying process may still fork."""
    while children := psutil.Process().children(recursive=True):
        for child in children:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(children, timeout=1)


if __name__ == "__main__":
    sys.exit(main())
