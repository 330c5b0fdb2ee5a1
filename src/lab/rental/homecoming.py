"""Records and checkpoints on their way home while the job runs, so that a lost machine takes little with it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from lab.rental import paths
from lab.rental.agent_contract import AgentRefused, AgentUnreachable, Cursor
from lab.rental.fetching import Damaged, Errand, fetch
from lab.runs import regular

if TYPE_CHECKING:
    from lab.rental.agent_contract import Agent, Grown, Poll, RemoteFile, Replaced
    from lab.rental.rental import Rental
    from lab.runs.directory import RunDirectory

TAIL_BYTES = 4096
SLICE_SECONDS = 20.0
"""What one look may spend on a large file; the next one goes on with it."""
LARGE_BYTES = 1024 * 1024
LARGE_EVERY_SECONDS = 300.0


@dataclass
class Homecoming:
    """What one process remembers of files that are written as a whole: which version is home."""

    versions: dict[str, str] = field(default_factory=dict)
    held: tuple[str, str, RemoteFile] | None = None
    large_at: float = -LARGE_EVERY_SECONDS

    def take(self, rental: Rental, agent: Agent, poll: Poll) -> None:
        """Write what a look brought, then fetch what was replaced since."""
        for grown in poll.grown:
            append(rental.run, grown)
        for replaced in sorted(poll.replaced, key=lambda replaced: replaced.size):
            if self.versions.get(replaced.path) != replaced.version and _acceptable(rental.run, replaced.path):
                self._fetch(rental, agent, replaced)

    def _fetch(self, rental: Rental, agent: Agent, replaced: Replaced) -> None:
        now = rental.clock.monotonic()
        if replaced.size > LARGE_BYTES and now - self.large_at < LARGE_EVERY_SECONDS and not self._holds(replaced.path):
            return
        try:
            file = self._held_file(agent, replaced)
            if file is not None:
                target = rental.run.path.joinpath(*replaced.path.split("/"))
                fetch(Errand(rental, agent, now + SLICE_SECONDS), file, target)
                self._done(replaced, now)
        except AgentRefused:
            self.held = None  # the machine restarted, or the file is gone
        except (Damaged, AgentUnreachable):
            return  # the next look goes on with it, and at the end every file is fetched and verified

    def _holds(self, path: str) -> bool:
        return self.held is not None and self.held[0] == path

    def _held_file(self, agent: Agent, replaced: Replaced) -> RemoteFile | None:
        """The version that the machine holds for us: the one begun, until it is home."""
        if self.held is not None and self.held[0] != replaced.path:
            return None
        if self.held is None:
            file = agent.pin(replaced.path, replaced.version)
            if file is None:
                return None
            self.held = (replaced.path, replaced.version, file)
        return self.held[2]

    def _done(self, replaced: Replaced, now: float) -> None:
        if self.held is not None:
            self.versions[replaced.path] = self.held[1]
        self.held = None
        if replaced.size > LARGE_BYTES:
            self.large_at = now


def cursors(run: RunDirectory) -> dict[str, Cursor]:
    """How far each growing file is home, with the proof that it is a prefix of the machine's."""
    found = {}
    for folder, _, names in os.walk(run.path):
        for name in names:
            path = Path(folder, name)
            if name.endswith(".jsonl") or (name.endswith(".log") and path.parent.name == run.logs.name):
                with contextlib.suppress(OSError):  # what is no file holds nothing that the machine could go on with
                    found[path.relative_to(run.path).as_posix()] = _cursor(path)
    return found


def _cursor(path: Path) -> Cursor:
    with regular.opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        return Cursor(size, hashlib.sha256(file.read()).hexdigest())


def append(run: RunDirectory, grown: Grown) -> None:
    """Add what a growing file has grown by; one that was replaced on the machine begins anew here."""
    if not _acceptable(run, grown.path):
        return
    path = run.path.joinpath(*grown.path.split("/"))
    if path.exists() and not path.is_file():
        return  # the whole file takes its place when it is fetched
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = regular.descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW)
    try:
        size = os.fstat(handle).st_size
        if grown.offset > size:
            return  # another look has changed it meanwhile; the next one asks again
        os.ftruncate(handle, grown.offset)
        os.pwrite(handle, grown.data, grown.offset)
    finally:
        os.close(handle)


def _acceptable(run: RunDirectory, path: str) -> bool:
    return path not in paths.reserved(run) and paths.fault(path) is None and paths.inside(run.path, path) is not None
