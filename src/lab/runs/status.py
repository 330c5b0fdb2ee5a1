"""How a run stands, derived from its records and its executor: a record whose writer died is never believed blindly."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from lab.errors import LabError
from lab.runs import records

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record

Word = Literal["created", "running", "completed", "failed", "stopped", "lost"]
FINAL: tuple[Word, ...] = ("completed", "failed", "stopped", "lost")
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_SAME_MOMENT_SECONDS = 5.0
_OVERDUE_SECONDS = 3600.0


@dataclass(frozen=True)
class Status:
    """The outcome as far as anybody can know it now."""

    word: Word
    attempt: int = 1
    stage: str | None = None
    exit_code: int | None = None
    reason: str = ""
    started: str | None = None
    ended: str | None = None
    recorded: bool = True
    """False where outcome.json does not say so, because whoever should have written it is gone."""

    @property
    def final(self) -> bool:
        """Whether nothing will change any more."""
        return self.word in FINAL


@dataclass(frozen=True)
class Execution:
    """Where the stages of the latest attempt are, by the stage runner's lines and by whether it lives."""

    phase: Literal["waiting", "running", "finished", "lost", "elsewhere"]
    """`elsewhere`: on another machine, of which nothing can be known here."""
    stage: str | None = None
    exit_code: int | None = None
    reason: str = ""
    ended: str | None = None


def status(run: RunDirectory) -> Status:
    """The run's status: its outcome, or what the stage runner's records and the runner itself say when that is open."""
    try:
        outcome = records.read_json(run.outcome) or {}
    except LabError as error:
        outcome = {"reason": f"{error.what} (the stage runner's records are used instead)"}
    word = outcome.get("status")
    recorded = Status(
        word=word if word in ("created", "running", *FINAL) else "created",
        attempt=_whole(outcome.get("attempt")) or 1,
        stage=_text(outcome.get("stage")),
        exit_code=_whole(outcome.get("exit_code")),
        reason=_text(outcome.get("reason")) or "",
        started=_text(outcome.get("started")),
        ended=_text(outcome.get("ended")),
    )
    if recorded.final:
        return recorded
    now = execution(run, recorded.attempt)
    derived = replace(recorded, stage=now.stage or recorded.stage, reason=now.reason, recorded=False)
    if now.phase == "finished":
        code = 1 if now.exit_code is None else now.exit_code
        return replace(derived, word=verdict(code), exit_code=code, ended=now.ended)
    if now.phase == "running" or now.phase == "lost":
        return replace(derived, word=now.phase)
    if now.phase == "waiting" and recorded.word == "running" and _runs_in_its_folder(run):
        return replace(derived, word="lost", reason=unrecorded(run))
    return recorded


def unrecorded(run: RunDirectory) -> str:
    """Why a job that was started here is lost when nothing is known of it: its runner had written its entry by then."""
    return f"{run.stages.name} holds nothing of this attempt, and no stage runner is at work"


def _runs_in_its_folder(run: RunDirectory) -> bool:
    """Whether the run was submitted to run on this machine, in this directory: such a receipt's handle is its path."""
    try:
        handle = (records.read_json(run.receipt) or {}).get("handle")
    except LabError:
        return False
    return isinstance(handle, str) and os.path.isabs(handle) and os.path.basename(handle) == run.id


def verdict(exit_code: int) -> Word:
    """What a job's exit code means for the run."""
    if exit_code == 0:
        return "completed"
    return "stopped" if exit_code in (130, 143) else "failed"


def execution(run: RunDirectory, attempt: int | None = None) -> Execution:
    """Look at the stage runner's lines, then for the runner itself: the lock that it holds cannot outlive it.

    `attempt` waits for that one; None means the latest that a runner entered.
    """
    try:
        lines = attempt_lines(run)
    except LabError as error:  # nor can anybody find the lock
        return Execution("lost", reason=error.what)
    if attempt is not None and lines and lines[0].get("attempt", attempt) != attempt:
        return Execution("waiting")
    exited = next((line for line in lines if line.get("event") == "exited"), None)
    if exited is not None:
        told = {key: _text(exited.get(key)) for key in ("stage", "reason", "time")}
        code = _whole(exited.get("exit_code"))
        return Execution("finished", told["stage"], code, told["reason"] or "", told["time"])
    started = [line for line in lines if line.get("event") == "started"]
    stage = _text(started[-1].get("stage")) if started else None
    if is_held(run.stages):
        return Execution("running", stage)
    if not lines:
        return Execution("waiting")
    if not (_was_here(lines[0]) or _is_overdue(lines[0])):
        return Execution("elsewhere", stage)
    if started and _lives(started[-1], lines):
        return Execution("running", stage, reason="its stage runner is gone; the stage is still ending")
    where = f"during {stage}" if stage else "before its first stage"
    return Execution("lost", stage, reason=f"the stage runner vanished {where}, without an exit record")


def attempt_lines(run: RunDirectory) -> list[Record]:
    """The stage runner's lines of the latest attempt, its own entry first."""
    lines = list(records.read_lines(run.stages))
    entries = [number for number, line in enumerate(lines) if line.get("event") == "entered"]
    return lines[entries[-1] :] if entries else lines


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path`: a stage runner does as long as it lives, however it dies."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


def _was_here(entered: Record) -> bool:
    """Whether the attempt ran on this machine, so that a runner that is not found here is dead."""
    boot = entered.get("boot")
    return (boot is not None and boot == boot_id()) or entered.get("host") == socket.gethostname()


def _is_overdue(entered: Record) -> bool:
    """Whether the attempt's own deadline passed so long ago that no runner can still be at work anywhere."""
    deadline = entered.get("deadline")
    return isinstance(deadline, (int, float)) and time.time() > deadline + _OVERDUE_SECONDS


def boot_id() -> str | None:
    """Which start of this machine this is, where the system tells."""
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


def _lives(started: Record, lines: list[Record]) -> bool:
    """Whether the stage's process outlived its runner; a process that merely got its number started at another time."""
    import psutil

    if any(line.get("event") == "ended" and line.get("stage") == started.get("stage") for line in lines):
        return False
    pid, moment, ticks = started.get("pid"), started.get("unix"), started.get("ticks")
    if not isinstance(pid, int) or not isinstance(moment, (int, float)):
        return False
    try:
        process = psutil.Process(pid)
        if isinstance(ticks, int):
            same = lines[0].get("boot") == boot_id() and start_ticks(pid) == ticks
        else:
            same = abs(process.create_time() - moment) < _SAME_MOMENT_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError, OverflowError):
        return False


def start_ticks(pid: int) -> int | None:
    """When the process started, in ticks since the machine did, which no step of its clock changes; as the runner."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return int(stat.rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
