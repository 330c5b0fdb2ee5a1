"""What the controller asks the agent on a rented machine, whatever carries the words.

AgentError
+-- AgentUnreachable   no answer that can be trusted: ask again
+-- AgentRefused       the agent itself said no, and why
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PORT = 8765
"""Where the agent listens."""
CHUNK_BYTES = 8 * 1024 * 1024
"""What one request carries: a few seconds on a slow line, far below every proxy's limit."""


class AgentError(Exception):
    """The agent did not do what it was asked."""


class AgentUnreachable(AgentError):
    """No answer that can be trusted: no connection, a proxy's own page, a torn body, a wrong nonce."""


Refusal = Literal["unauthorized", "conflict", "no-space", "damaged", "variables", "gone", "invalid"]


class AgentRefused(AgentError):
    """The agent itself said no.

    unauthorized: not the token of this run. conflict: another job or other content stands there already.
    no-space: its disk is full. damaged: what arrived has another hash. variables: it restarted and forgot them.
    gone: there is no such file. invalid: the request makes no sense.
    """

    def __init__(self, code: Refusal, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class JobReport:
    """What became of the job, as the machine's own disk knows it."""

    request_id: str
    phase: Literal["running", "exited", "interrupted"]
    """`interrupted`: the machine restarted while it ran; it was not run again."""
    stage: str | None = None
    exit_code: int | None = None
    reason: str = ""
    seconds: float = 0.0
    """For how long it has been running, by the machine's own clock."""


@dataclass(frozen=True)
class Hello:
    """The agent's proof that this is the machine that was asked for."""

    nonce: str
    boot_id: str
    uptime_seconds: float
    gpus: tuple[str, ...]
    disk_free_bytes: int
    boots: int = 1
    job: JobReport | None = None


@dataclass(frozen=True)
class Cursor:
    """How much of a growing file is home, and the hash of its end, by which the agent sees that it is a prefix."""

    offset: int
    tail_sha256: str


@dataclass(frozen=True)
class Grown:
    """New bytes of a growing file; an offset below the cursor's means that the file was replaced."""

    path: str
    offset: int
    data: bytes


@dataclass(frozen=True)
class Replaced:
    """A small record or a checkpoint, written as a whole; its version changes whenever it is."""

    path: str
    size: int
    version: str


@dataclass(frozen=True)
class Poll:
    """One look at a machine at work."""

    boot_id: str
    uptime_seconds: float
    job: JobReport | None
    grown: tuple[Grown, ...] = ()
    replaced: tuple[Replaced, ...] = ()
    notices: tuple[str, ...] = ()
    """Facts for a person: a full disk, processes killed for memory, a self-stop that failed."""


@dataclass(frozen=True)
class RemoteFile:
    """One file that stays as it is, with the hash of the whole and of each `CHUNK_BYTES`."""

    path: str
    size: int
    sha256: str
    chunks: tuple[str, ...]


@dataclass(frozen=True)
class Skipped:
    """Something that is no plain file, and why it stays behind."""

    path: str
    why: str


@dataclass(frozen=True)
class Manifest:
    """Every result once nothing writes any more."""

    files: tuple[RemoteFile, ...]
    skipped: tuple[Skipped, ...] = ()


@dataclass(frozen=True)
class JobRequest:
    """A job as the machine gets it. The same id with the same content is the same job, however often it arrives."""

    request_id: str
    bundle_sha256: str
    plan: Mapping[str, Any]
    """`Job.stage_plan()` with its placeholders, which the machine fills in, because it knows its paths."""
    install: Mapping[str, Any] = field(default_factory=dict)
    """What the install stage is to provide: packages, requirements, torch_index, distributions."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Small texts for the run directory there: the resolved experiment."""


class Agent(Protocol):
    """Every call is safe to repeat, and any of them renews the machine's lease."""

    def hello(self) -> Hello:
        """Who are you?"""
        ...

    def limits(self, lease_seconds: float, deadline_seconds: float) -> None:
        """From now on: how long to live without hearing from us, and when to have stopped the machine at the latest."""
        ...

    def present(self, sha256: str) -> frozenset[int]:
        """Which chunks of the bundle are there, whole; every one once it is unpacked."""
        ...

    def put_chunk(self, sha256: str, index: int, data: bytes) -> None:
        """Store one chunk of the bundle."""
        ...

    def commit(self, sha256: str, size: int, into: Literal["code", "run"] = "code") -> None:
        """Check the whole archive and unpack it: as the job's code, or into its run directory."""
        ...

    def variables(self, values: Mapping[str, str]) -> None:
        """Keep the forwarded variables, in memory only."""
        ...

    def start(self, request: JobRequest) -> JobReport:
        """Start the job, unless it is started."""
        ...

    def stop_job(self, grace_seconds: float) -> None:
        """Ask the worker to finish its step and save; after the grace it is killed."""
        ...

    def poll(self, cursors: Mapping[str, Cursor] | None) -> Poll:
        """Report on the job, and send what its records and logs have grown by; None asks for the report alone."""
        ...

    def pin(self, path: str, version: str) -> RemoteFile | None:
        """Hold on to a file as it is now, though the job replaces it; None while it is being hashed.

        The answer's path reads the held one. Only one file is held at a time.
        """
        ...

    def manifest(self, patterns: Sequence[str], fresh: bool) -> Manifest | None:
        """List the results that match, with their hashes; None while they are being hashed."""
        ...

    def blob(self, path: str, offset: int, length: int) -> Iterator[bytes]:
        """Yield the bytes of a listed or held file; may break off early."""
        ...

    def acknowledge(self) -> None:
        """Tell the machine that every result is home."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...
