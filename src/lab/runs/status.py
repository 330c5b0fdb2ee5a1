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
    return recorded if recorded.final else _derived(run, recorded)


def verdict(exit_code: int) -> Word:
    """What a job's exit code means for the run."""
    if exit_code == 0:
        return "completed"
    return "stopped" if exit_code in (130, 143) else "failed"


def attempt_lines(run: RunDirectory) -> list[Record]:
    """The stage runner's lines of the latest attempt, its own entry first."""
    lines = list(records.read_lines(run.stages))
    entries = [number for number, line in enumerate(lines) if line.get("event") == "entered"]
    return lines[entries[-1] :] if entries else lines


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path`: a stage runner does as long as it lives, however it dies."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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


def _derived(run: RunDirectory, recorded: Status) -> Status:
    lines = attempt_lines(run)
    exited = next((line for line in lines if line.get("event") == "exited"), None)
    if exited is not None:
        code = _whole(exited.get("exit_code"))
        code = 1 if code is None else code
        ending = replace(recorded, word=verdict(code), exit_code=code, recorded=False)
        reason = _text(exited.get("reason")) or ""
        return replace(ending, stage=_text(exited.get("stage")), reason=reason, ended=_text(exited.get("time")))
    started = [line for line in lines if line.get("event") == "started"]
    stage = _text(started[-1].get("stage")) if started else recorded.stage
    if is_held(run.stages):
        return replace(recorded, word="running", stage=stage, recorded=False)
    if not lines or not (_was_here(lines[0]) or _is_overdue(lines[0])):
        return recorded
    if started and _lives(started[-1], lines):
        reason = "its stage runner is gone; the stage is still ending"
        return replace(recorded, word="running", stage=stage, reason=reason, recorded=False)
    reason = (
        f"the stage runner vanished {f'during {stage}' if stage else 'before its first stage'}, without an exit record"
    )
    return replace(recorded, word="lost", stage=stage, reason=reason, recorded=False)


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
    pid, moment = started.get("pid"), started.get("unix")
    if not isinstance(pid, int) or not isinstance(moment, (int, float)):
        return False
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - moment) < _SAME_MOMENT_SECONDS
        return bool(same and process.status() != psutil.STATUS_ZOMBIE)
    except (psutil.Error, ValueError, OverflowError):
        return False


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
