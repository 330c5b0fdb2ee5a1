"""Fetching one file in chunks: it goes on where a broken answer ended, and gets its name only when all is right."""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.rental.agent_contract import CHUNK_BYTES, AgentUnreachable

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from pathlib import Path

    from lab.rental.agent_contract import Agent, RemoteFile
    from lab.rental.rental import Rental

DAMAGED_TRIES = 3
"""How often a chunk may arrive with a wrong hash before its file is given up."""
BLOCK_BYTES = 1024 * 1024


class Damaged(Exception):
    """A file cannot be brought home right, and why."""


@dataclass
class Errand:
    """What the fetches of one command share."""

    rental: Rental
    agent: Agent
    until: float
    """Monotonic time at which patience ends."""
    received_bytes: int = 0
    """Bytes that travelled, those sent twice included."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, number: int) -> None:
        """Add bytes that arrived, from any thread."""
        with self.lock:
            self.received_bytes += number

    @property
    def late(self) -> bool:
        """Whether patience has ended."""
        return self.rental.clock.monotonic() >= self.until


def fetch(errand: Errand, file: RemoteFile, path: Path, pool: Executor | None = None) -> None:
    """Bring one file to `path`, or raise; what arrived of it stays beside it for the next try."""
    try:
        if not is_home(file, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _fetch(errand, file, path, pool)
    except OSError as error:
        raise Damaged(f"it cannot be written here: {error.strerror}") from error


def is_home(file: RemoteFile, path: Path) -> bool:
    """Whether the file is here already, with the right hash."""
    if not path.is_file() or path.is_symlink() or path.stat().st_size != file.size:
        return False
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest() == file.sha256


def _fetch(errand: Errand, file: RemoteFile, path: Path, pool: Executor | None) -> None:
    part = path.with_name(f".{path.name}.{file.sha256[:8]}.part")
    begun = part.exists()
    handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    try:
        os.ftruncate(handle, file.size)
        chunks = _Chunks(errand, file, handle)
        chunks.bring_all([i for i in range(len(file.chunks)) if not begun or not chunks.is_right(i)], pool)
        found = _sha256(handle, 0, file.size)
        if found != file.sha256:
            raise Damaged(f"expected sha256 {file.sha256}, found {found}")
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(part, path)


@dataclass
class _Chunks:
    errand: Errand
    file: RemoteFile
    handle: int

    def bring_all(self, indexes: list[int], pool: Executor | None) -> None:
        """Fetch these chunks, several at once when there is a pool."""
        if pool is None:
            for index in indexes:
                self.bring(index)
            return
        futures = [pool.submit(self.bring, index) for index in indexes]
        try:
            for future in futures:
                future.result()
        finally:
            for future in futures:
                future.cancel()
            for future in futures:
                if not future.cancelled():
                    future.exception()  # the file is closed next: wait until no chunk writes to it

    def bring(self, index: int) -> None:
        """Fetch one chunk until its hash is right."""
        for _ in range(DAMAGED_TRIES):
            self._receive_whole(index)
            if self.is_right(index):
                return
        raise Damaged(f"expected sha256 {self.file.chunks[index]} for chunk {index}, found {self._hash(index)}")

    def is_right(self, index: int) -> bool:
        """Whether the chunk is here with its hash."""
        return self._hash(index) == self.file.chunks[index]

    def _receive_whole(self, index: int) -> None:
        at, end = self._span(index)
        attempt = 0
        while at < end:
            self.errand.rental.check()
            before = at
            try:
                at = self._receive(at, end)
                trouble = "the answer ended early"
            except AgentUnreachable as error:
                trouble = str(error)
            if at == end:
                return
            if self.errand.late:
                raise Damaged(f"the machine sends it too slowly or not at all: {trouble}")
            attempt = attempt + 1 if at == before else 0
            self.errand.rental.pause(self.errand.rental.backoff(attempt))

    def _receive(self, at: int, end: int) -> int:
        """Write what comes and return how far it reached; an answer that breaks off has still brought something."""
        start = at
        try:
            for piece in self.errand.agent.blob(self.file.path, at, end - at):
                fitting = piece[: end - at]
                os.pwrite(self.handle, fitting, at)
                at += len(fitting)
                self.errand.count(len(piece))
        except AgentUnreachable:
            if at == start:
                raise
        return at

    def _span(self, index: int) -> tuple[int, int]:
        return index * CHUNK_BYTES, min(self.file.size, (index + 1) * CHUNK_BYTES)

    def _hash(self, index: int) -> str:
        return _sha256(self.handle, *self._span(index))


def _sha256(handle: int, at: int, end: int) -> str:
    digest = hashlib.sha256()
    while at < end and (block := os.pread(handle, min(BLOCK_BYTES, end - at), at)):
        digest.update(block)
        at += len(block)
    return digest.hexdigest()
