"""The stage runner: runs a job's stages in order, each with its log and its deadline, and says how the job ended.

Standard library only, and started by its path, so that it is the same file on a laptop and on a bare rented machine:

    python stages.py [--detach] PLAN.json

It holds a lock on the file of records as long as it lives, so nobody needs to trust a process number. SIGTERM asks the
running stage to save and end, however often it comes; a second Ctrl-C, or SIGQUIT, ends its process group. The plan
names the variables that are forwarded to stages; their values come by the environment and are never written down.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import mmap
import os
import re
import select
import signal
import socket
import stat
import subprocess
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOCK_PATIENCE_SECONDS = 5.0
LEFTOVER_SECONDS = 5.0
RECORD_PATIENCE_SECONDS = 30.0
LONGEST_SLEEP_SECONDS = 3600.0
STOPPED = 143
SHORTEST_SECRET = 8
COMMON = re.compile(r"[-+\d.,:_]{1,15}|[\W_]+")
"""Numbers, dates and rules, which stand in any text."""
LINE_END = re.compile(r"\n|\\n")
GAP = re.compile(r"[\s\"',]+")
TIME_LIMIT = "ended by the time limit of"
"""How the reason begins when nobody asked for the end: readers of the records know it by this."""
UNFINISHED = "exit code 0, but it did not write what it writes last: something in it ended the process too soon"
JOB_LIMIT = "limits.hours"
"""The key of the experiment that sets the job's limit."""


class Records:
    """Appends lines to the file of records; on a full disk they wait in memory for the next chance."""

    def __init__(self, path: str) -> None:
        self.handle = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        self.waiting: list[bytes] = []

    def lock(self) -> None:
        """Become the only runner of this job; readers that test the lock hold it for an instant."""
        patience = time.monotonic() + LOCK_PATIENCE_SECONDS
        while True:
            try:
                return fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > patience:
                    raise SystemExit("another stage runner is at work on this run") from None
                time.sleep(0.02)

    def add(self, **line: object) -> None:
        """Write one line, or keep it for later."""
        moment = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.waiting.append(json.dumps({**line, "time": moment, "unix": time.time()}).encode() + b"\n")
        self.flush()

    def flush(self) -> bool:
        """Try to write what waits."""
        with contextlib.suppress(OSError):
            while self.waiting:
                size = os.fstat(self.handle).st_size
                torn = size > 0 and os.pread(self.handle, 1, size - 1) != b"\n"
                line = b"\n" * torn + self.waiting[0]
                if os.write(self.handle, line) < len(line):
                    os.ftruncate(self.handle, size)
                    return False
                del self.waiting[0]
            os.fsync(self.handle)
        return not self.waiting

    def insist(self) -> None:
        """Write what waits, giving a full disk some time to be cleared."""
        patience = time.monotonic() + RECORD_PATIENCE_SECONDS
        while not self.flush() and time.monotonic() < patience:
            time.sleep(0.5)


class Signals:
    """Counts how often the job was asked to stop, and wakes the runner for that and for the end of a child."""

    def __init__(self) -> None:
        self.stops = 0
        self._awake, wake = os.pipe()
        for end in (self._awake, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT):
            signal.signal(number, self._stop)
        for number in (signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)

    def _stop(self, number: int, _: object) -> None:
        """Two keystrokes end the job; SIGTERM may be sent again by whoever is not sure that it arrived."""
        if number == signal.SIGQUIT:
            self.stops = 2
        else:
            self.stops = max(self.stops, 1) if number == signal.SIGTERM else self.stops + 1

    def wait(self, seconds: float) -> None:
        """Sleep until a signal comes or the time is over."""
        select.select([self._awake], [], [], seconds)
        with contextlib.suppress(BlockingIOError):
            os.read(self._awake, 4096)


class Stage:
    """One stage's process, with the group that it leads."""

    def __init__(self, name: str, argv: list[str], log: Path, folder: str, environment: dict[str, str]) -> None:
        self.name = name
        self.log = log
        self.started = time.monotonic()
        self.reason = ""
        self.asked = False
        self.killed = False
        with os.fdopen(open_file(str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab") as output:
            self.log_start = output.tell()
            self.process = subprocess.Popen(
                argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def ask_to_stop(self, reason: str) -> None:
        """Send SIGTERM to the stage itself, not to its children: it decides how to end them."""
        self.asked = True
        self.reason = reason
        self.process.terminate()

    def kill(self, reason: str) -> None:
        """End the whole process group."""
        self.killed = True
        self.reason = reason
        _signal_group(self.process.pid, signal.SIGKILL)

    def end_leftovers(self) -> None:
        """End what the stage left running in its group, and collect what was adopted."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            patience = time.monotonic() + LEFTOVER_SECONDS
            alive = _signal_group(self.process.pid, number)
            while alive and time.monotonic() < patience:
                _reap()
                time.sleep(0.02)
                alive = _signal_group(self.process.pid, 0)
            if not alive:
                break
        _reap()

    def hide(self, secrets: list[bytes]) -> None:
        """Cover secret values that the stage printed."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(contextlib.suppress(OSError, ValueError))  # an empty log cannot be mapped
            file = stack.enter_context(os.fdopen(open_file(str(self.log), os.O_RDWR), "r+b"))
            text = stack.enter_context(mmap.mmap(file.fileno(), 0))
            for secret in secrets:
                at = text.find(secret, self.log_start)
                while at >= 0:
                    text[at : at + len(secret)] = b"*" * len(secret)
                    at = text.find(secret, at)


class Runner:
    """Runs the stages of one plan, once."""

    def __init__(self, plan: dict[str, Any], records: Records, signals: Signals) -> None:
        self.plan = plan
        self.records = records
        self.signals = signals
        self.deadline = time.monotonic() + plan["seconds"]
        self.stage_deadline = self.deadline

    def enter(self) -> None:
        """Record who runs the job, where and until when."""
        seconds, attempt = self.plan["seconds"], self.plan["attempt"]
        machine = {"host": socket.gethostname(), "boot": _boot_id()}
        deadline = time.time() + seconds
        self.records.add(event="entered", attempt=attempt, pid=os.getpid(), deadline=deadline, **machine)

    def run(self) -> int:
        """Run every stage until one fails or the job is asked to stop; return the job's exit code."""
        start = time.monotonic()
        code, name, reason = 0, None, ""
        stages = self.plan["stages"]
        for number, planned in enumerate(stages):
            if self.signals.stops:
                code, reason = STOPPED, "asked to stop"
                break
            name = planned["name"]
            code, reason = self._stage(planned)
            if code == 0 and self.signals.stops and number + 1 < len(stages):
                code, reason = STOPPED, "asked to stop"
            if code:
                break
        seconds = round(time.monotonic() - start, 3)
        self.records.add(event="exited", exit_code=code, stage=name, reason=reason, seconds=seconds)
        self.records.insist()
        return code

    def _stage(self, planned: dict[str, Any]) -> tuple[int, str]:
        name, argv = planned["name"], planned["argv"]
        log = Path(self.plan["logs"]) / f"{name}.log"
        try:
            stage = Stage(name, argv, log, self.plan["folder"], self._environment(planned))
        except (OSError, ValueError) as error:
            code, reason = (127 if isinstance(error, FileNotFoundError) else 126), f"cannot be started: {error}"
            self.records.add(stage=name, event="started", argv=argv)
            self._ended(name, 0.0, code, None, reason)
            return code, reason
        pid = stage.process.pid
        known = {"pid": pid, "ticks": _start_ticks(pid), "log_start": stage.log_start}
        self.records.add(stage=name, event="started", argv=argv, **known)
        self._attend(stage, planned["seconds"])
        stage.end_leftovers()
        stage.hide(self._values(planned))
        returned = stage.process.returncode
        code = 128 - returned if returned < 0 else returned
        number = signal.Signals(-returned).name if returned < 0 else None
        unfinished = code == 0 and planned.get("leaves") and not os.path.exists(planned["leaves"])
        code = 1 if unfinished else code
        reason = stage.reason if code else ""
        if code and not reason:
            reason = UNFINISHED if unfinished else _explained(code, number)
        self._ended(name, time.monotonic() - stage.started, code, number, reason)
        return self._judged(stage, code), reason

    def _judged(self, stage: Stage, code: int) -> int:
        """A stage that was ended because a person asked for it counts as stopped, not as failed."""
        ended_by_us = code in (130, STOPPED) or (code == 137 and stage.killed)
        return STOPPED if ended_by_us and self.signals.stops else code

    def _attend(self, stage: Stage, seconds: float | None) -> None:
        """Wait for the stage's end; pass on wishes to stop, and enforce deadlines."""
        own = stage.started + seconds if seconds is not None else self.deadline
        deadline = min(own, self.deadline)
        limit, key = (seconds, "hours of this stage") if own < self.deadline else (self.plan["seconds"], JOB_LIMIT)
        grace = self.plan["grace_seconds"]
        while stage.process.poll() is None:
            now = time.monotonic()
            if self.signals.stops >= 2 and not stage.killed:
                stage.kill("ended at once: nothing more was saved")
            elif stage.asked and now >= deadline and not stage.killed:
                stage.kill(f"{stage.reason}, and did not end within {grace:g} s: killed")
            elif not stage.asked and (self.signals.stops or now >= deadline):
                stage.ask_to_stop("asked to stop" if self.signals.stops else f"{TIME_LIMIT} {limit:g} s ({key})")
                deadline = now + grace
            left = LONGEST_SLEEP_SECONDS if stage.killed else deadline - time.monotonic()
            self.signals.wait(min(max(left, 0.0), LONGEST_SLEEP_SECONDS))

    def _environment(self, planned: dict[str, Any]) -> dict[str, str]:
        """What the stage sees: everything but the variables that were forwarded for other stages."""
        hidden = set(self.plan["forwarded"]) - set(planned["forwarded"])
        kept = {name: value for name, value in os.environ.items() if name not in hidden}
        return {**kept, **self.plan["environment"], "LAB_STAGE": planned["name"]}

    def _values(self, planned: dict[str, Any]) -> list[bytes]:
        found = {part for name in planned["forwarded"] for part in secret_parts(os.environ.get(name, ""))}
        found.update(self.plan.get("covered", ()))
        return [os.fsencode(part) for part in sorted(found, key=len, reverse=True)]

    def _ended(self, name: str, seconds: float, code: int, number: str | None, reason: str) -> None:
        ending = {"seconds": round(seconds, 3), "exit_code": code, "signal": number, "reason": reason}
        self.records.add(stage=name, event="ended", **ending)


def secret_parts(value: str) -> list[str]:
    """What of a forwarded value is covered: the rule of `lab.runs.secrets.parts`, held here for want of lab."""
    found = [value]
    lines = LINE_END.split(value)
    for line in lines if len(lines) > 1 else ():
        words = [word for word in GAP.split(line) if word]
        found += words if len(words) == 1 else filter(_looks_like_key, words)
    return [part for part in dict.fromkeys(found) if not _is_common(part)]


def _looks_like_key(word: str) -> bool:
    kinds = any(map(str.isdigit, word)), any(map(str.isalpha, word))
    return len(word) >= 16 and all(kinds) and "://" not in word


def _is_common(text: str) -> bool:
    if len(text) < SHORTEST_SECRET or COMMON.fullmatch(text):
        return True
    return "/" in text and os.path.exists(os.path.expanduser(text))


def main(arguments: list[str]) -> int:
    """Run the plan in the foreground, or detached from this process and its terminal.

    The detached one reads from standard input, which no other process can look into, a JSON list of texts that no log
    may show although they were not forwarded: a stage may find them in a file of its own.
    """
    detach = arguments[:1] == ["--detach"]
    plan = json.loads(Path(arguments[-1]).read_text(encoding="utf-8"))
    if not detach:
        return _run(plan)
    plan["covered"] = json.loads(sys.stdin.read() or "[]")
    return _detached(plan)


def _run(plan: dict[str, Any], entered: int | None = None) -> int:
    signals = Signals()
    _adopt_orphans()
    records = Records(plan["records"])
    records.lock()
    runner = Runner(plan, records, signals)
    runner.enter()
    if entered is not None:
        os.write(entered, b"entered")
        os.close(entered)
    return runner.run()


def _detached(plan: dict[str, Any]) -> int:
    """Leave the terminal's session; this process returns once the runner has entered, or says why it could not."""
    told, tell = os.pipe()
    if os.fork() > 0:
        os.close(tell)
        with os.fdopen(told, "rb") as pipe:
            answer = pipe.read()
        if answer != b"entered":
            sys.stderr.write(f"{answer.decode(errors='replace') or 'the stage runner could not start'}\n")
        return 0 if answer == b"entered" else 1
    os.close(told)
    code = 1
    try:
        os.setsid()
        _redirect(Path(plan["logs"]) / "runner.log")
        code = _run(plan, tell)
    except BaseException as error:  # told to the submitter, or to runner.log once that has gone
        traceback.print_exc()
        with contextlib.suppress(OSError):
            os.write(tell, str(error).encode())
    finally:
        os._exit(code)


def _redirect(log: Path) -> None:
    output = open_file(str(log), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, number)


def open_file(path: str, flags: int) -> int:
    """`os.open` for a regular file only: to open a pipe is to wait for its other end, deaf to every signal."""
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.EINVAL, "is not a regular file", path) from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "is not a regular file", path)
    os.set_blocking(handle, True)
    return handle


def _explained(code: int, number: str | None) -> str:
    if number == "SIGKILL":
        return "killed by SIGKILL: probably out of memory"
    if code == 137:
        return "exit code 137: a process of it was probably killed for lack of memory"
    return f"killed by {number}" if number else f"exit code {code}"


def _signal_group(group: int, number: int) -> bool:
    """Signal the process group; whether it still has a member."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None


def _start_ticks(pid: int) -> int | None:
    """When the process started, in ticks since the machine did: what no step of its clock changes."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _prctl(option: int, value: int) -> None:
    """Linux's process controls; elsewhere there are none, and the runner does without."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _adopt_orphans() -> None:
    _prctl(36, 1)  # PR_SET_CHILD_SUBREAPER: what a stage leaves behind becomes our child, to be reaped


def end_with_parent() -> None:
    """For a child before it becomes its command: SIGTERM when its parent ends, however that ends."""
    _prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
