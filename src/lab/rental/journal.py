"""The journal of one rental: synced to disk before the act that it announces, so that no machine is ever forgotten.

It lies with the access token in `<store>/rentals/<run>/`, readable by its owner only; a rental's state is a fold of it.
"""

from __future__ import annotations

import fcntl
import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from lab.rental.clock import Clock

SCHEMA = 1
PRIVATE_FILE = 0o600
PRIVATE_FOLDER = 0o700
LOCK_SECONDS = 20.0
"""How long a command waits for another one that works on the same rental."""

HOLDER_BYTES = 20

Record = dict[str, Any]


class Journal:
    """Append-only lines `{seq, time, monotonic, state, event, data, detail}` under one exclusive lock."""

    def __init__(self, folder: Path, clock: Clock, sync: Callable[[int], None] = os.fsync) -> None:
        self.folder = folder
        self.path = folder / "journal.jsonl"
        self._clock = clock
        self._sync = sync

    def exists(self) -> bool:
        """Whether anything was ever recorded."""
        return self.path.is_file()

    def create(self) -> None:
        """Make the folder, private, and make sure that a power cut does not take it away again."""
        try:
            for folder in (self.folder.parent, self.folder):
                folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
                self._sync_folder(folder.parent)
        except OSError as error:
            raise LabError(
                f"{self.folder}: cannot be made: {error.strerror}. Nothing was asked of the cloud.",
                "Free space or permissions there, or set LAB_STORE to another folder.",
            ) from error

    def records(self) -> list[Record]:
        """Every whole record. A torn last line was never acted upon, so it does not count."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return [self._parsed(line, number) for number, line in enumerate(content.split(b"\n")[:-1], 1)]

    def append(
        self, seq: int, state: str, event: str, data: Mapping[str, object], detail: Mapping[str, object]
    ) -> Record:
        """Write one record and return once it is on the disk; on any error the journal is as it was."""
        record = {
            "schema": SCHEMA, "seq": seq, "time": self._clock.wall(), "monotonic": self._clock.monotonic(),
            "state": state, "event": event, "data": dict(data), "detail": dict(detail),
        }  # fmt: skip
        line = (json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n").encode()
        new = not self.exists()
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            end = self._end_of_whole_lines(handle)
            os.ftruncate(handle, end)
            try:
                self._write(handle, line, end)
                self._sync(handle)
            except OSError:
                os.ftruncate(handle, end)
                raise
        finally:
            os.close(handle)
        if new:
            self._sync_folder(self.folder)
        return record

    @contextmanager
    def lock(self, seconds: float = LOCK_SECONDS) -> Iterator[None]:
        """Hold the rental alone. Raises `LabError` naming the process that holds it when that takes longer."""
        handle = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, PRIVATE_FILE)
        try:
            self._acquire(handle, seconds)
            os.pwrite(handle, f"{os.getpid():<{HOLDER_BYTES}}".encode(), 0)
            yield
        finally:
            os.close(handle)

    def _acquire(self, handle: int, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if self._clock.monotonic() >= until:
                    holder = os.pread(handle, HOLDER_BYTES, 0).decode(errors="replace").strip() or "unknown"
                    raise Held(self.folder.name, holder) from None
            self._clock.sleep(0.2)

    def _parsed(self, line: bytes, number: int) -> Record:
        try:
            record = json.loads(line)
            if record["schema"] != SCHEMA:
                raise LabError(f"{self.path}: was written by another version of lab.", "Update lab.")
        except (ValueError, KeyError, TypeError) as error:
            raise LabError(
                f"{self.path}: line {number} is damaged: {error}",
                "Nothing was done, because it is not known what had been. Look for the machine in the cloud's console.",
            ) from error
        return dict(record)

    @staticmethod
    def _end_of_whole_lines(handle: int) -> int:
        end = os.lseek(handle, 0, os.SEEK_END)
        while end:
            start = max(0, end - 65536)
            newline = os.pread(handle, end - start, start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        return 0

    @staticmethod
    def _write(handle: int, line: bytes, offset: int) -> None:
        while line:
            written = os.pwrite(handle, line, offset)
            line, offset = line[written:], offset + written

    def _sync_folder(self, folder: Path) -> None:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._sync(handle)
        finally:
            os.close(handle)


class Held(LabError):
    """Another process works on the same rental now."""

    def __init__(self, run_id: str, holder: str) -> None:
        super().__init__(
            f"{run_id}: another lab process ({holder}) works on this rental now.",
            "Wait until it is done, or press Ctrl-C there.",
        )
        self.holder = holder
