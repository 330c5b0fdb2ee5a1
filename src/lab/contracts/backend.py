"""Backend: a place where jobs execute; every call but `submit` is safe to repeat."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lab.jobs import Job
    from lab.runs.directory import RunDirectory

JobPhase = Literal["waiting", "running", "finished", "lost"]


class Unquoted(LabError):
    """The backend cannot be asked what a job would cost: no key, no network."""


@dataclass(frozen=True)
class Quote:
    """What a job would cost, before anything is created."""

    description: str
    dollars_per_hour: float = 0.0
    max_dollars: float = 0.0
    candidates: tuple[Mapping[str, object], ...] = ()
    """Machines in the order in which they would be tried; empty for a backend that rents nothing."""
    unknown: str = ""
    """Why the backend could not be asked: only a dry run goes on then."""


@dataclass(frozen=True)
class Receipt:
    """What finds a submitted job again, from any later process."""

    backend: str
    run_id: str
    handle: str
    """The backend's own name for it: a process group, a Pod."""


@dataclass(frozen=True)
class JobState:
    """Where a job is: `lost` when its executor vanished without an exit record."""

    phase: JobPhase
    stage: str | None = None
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class LogLine:
    """One line of a stage's log."""

    stage: str
    text: str


@dataclass(frozen=True)
class Resource:
    """One machine or process that the backend holds for us, and what it costs now."""

    handle: str
    run_id: str | None
    state: str
    dollars_per_hour: float = 0.0
    created: str | None = None
    detail: Mapping[str, object] = field(default_factory=dict)


class Backend(Protocol):
    """Built as `cls(options)`."""

    def quote(self, job: Job) -> Quote:
        """Say what the job would cost; creates nothing."""
        ...

    def submit(self, job: Job, run: RunDirectory) -> Receipt:
        """Start the job once. The receipt is recorded in the run directory before anything can be lost."""
        ...

    def state(self, receipt: Receipt) -> JobState:
        """Say where the job is now."""
        ...

    def records(self, receipt: Receipt, run: RunDirectory) -> None:
        """Bring the records written so far home; for a backend on this machine they are there already."""
        ...

    def logs(self, receipt: Receipt, run: RunDirectory) -> Iterator[LogLine]:
        """Yield the log lines there are now, stage after stage."""
        ...

    def fetch(self, receipt: Receipt, run: RunDirectory) -> Sequence[str]:
        """Bring every result home, verified; return the names that could not be brought, with the reason."""
        ...

    def stop(self, receipt: Receipt) -> None:
        """Ask the worker to finish its step, save and exit (SIGTERM)."""
        ...

    def start(self, receipt: Receipt) -> None:
        """Start a stopped machine again; refused by a backend that has none."""
        ...

    def delete(self, receipt: Receipt) -> None:
        """End the job's process group at once, or delete its machine and prove it."""
        ...

    def reconcile(self, receipt: Receipt) -> JobState:
        """Find out what became of a job whose controller vanished, and finish what was begun."""
        ...

    def owned(self) -> Sequence[Resource]:
        """Everything that this backend holds for this project now."""
        ...


@runtime_checkable
class Talks(Protocol):
    """A backend some of whose calls take minutes: it says meanwhile what it does, to whoever set `say`."""

    say: Callable[[str], None]
