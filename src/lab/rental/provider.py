"""Provider: one cloud's API, spoken plainly. A new cloud writes this and changes nothing else in `lab.rental`.

Each call makes its requests once: `lab.rental` knows which may be repeated, when, and by which clock. A provider turns
every answer into a value or into one of the errors below, and never guesses: what it cannot read is an error.

ProviderError
+-- NoCapacity         this candidate cannot be had now                       create, start
+-- RequestRejected    the request itself is wrong; repeating it is useless   create
+-- NotAuthorized      the key is missing, wrong or expired                   all
+-- Forbidden          the key may not do this; on create: not this candidate all
+-- NoCredit           the account cannot pay                                 create, start
+-- RateLimited        refused before it was looked at: nothing happened      all
+-- Gone               this version of the API does not exist any more        all
+-- NotFound           no such machine, or none that this key may see         get, stop, start, delete, system_logs
+-- Conflict           not possible in the machine's present state            stop, start, delete
+-- Unreachable        no usable answer; for a read: ask again                all
+-- UncertainOutcome   sent, but nobody knows whether it was done             create, stop, start, delete
+-- NoSecondWay        there is no independent way installed                  emergency_stop, emergency_delete
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from lab.jobs import Needs

Status = Literal["starting", "running", "stopped", "failed", "terminated", "unknown"]
"""What a machine is doing, in our words. `unknown` stands for a word the provider has newly invented."""


class ProviderError(Exception):
    """An answer that is no result, with the cloud's own words and the id by which its support finds the request."""

    def __init__(self, message: str, request_id: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.request_id = request_id


class NoCapacity(ProviderError):
    """This candidate cannot be had now; another one may."""


class RequestRejected(ProviderError):
    """The request is wrong in itself; no candidate and no repetition would help."""


class NotAuthorized(ProviderError):
    """The key is missing, wrong or expired."""


class Forbidden(ProviderError):
    """The key is valid but may not do this; when creating, it may not use this candidate."""


class NoCredit(ProviderError):
    """The account cannot pay for it."""


class RateLimited(ProviderError):
    """Too many requests. The cloud refused before looking at this one, so nothing happened."""

    def __init__(self, message: str, retry_after: float, request_id: str | None = None) -> None:
        super().__init__(message, request_id)
        self.retry_after = retry_after
        """Seconds to wait, from the cloud's headers or a capped guess when they are missing or malformed."""


class Gone(ProviderError):
    """This version of the API was retired: lab must be updated. Never means that a machine is gone."""


class NotFound(ProviderError):
    """The cloud knows no such machine, or none that this key may see. Alone it proves nothing."""


class Conflict(ProviderError):
    """The machine's present state does not allow it."""


class Unreachable(ProviderError):
    """No usable answer: no connection, a 5xx, an edge that blocks, half a listing, text that is not the API's."""


class UncertainOutcome(ProviderError):
    """The request was sent and may or may not have been carried out: a 5xx, a time-out, a torn or unreadable answer."""


class NoSecondWay(ProviderError):
    """No independent way to reach the cloud is installed."""


@dataclass(frozen=True)
class Candidate:
    """One machine that could be asked for; plain values only, because the journal keeps it."""

    gpu: str
    """The cloud's own id of the GPU type."""
    dollars_per_hour: float
    """The listed price of the whole machine; the real one is what `create` returns."""
    gpus: int = 1
    cloud: str = ""
    data_center: str | None = None
    availability: str = ""
    minimum_cuda: str | None = None
    """The oldest CUDA version that the host's driver may offer, where the cloud can be told."""

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


@dataclass(frozen=True)
class CreateRequest:
    """Everything that one create call asks for."""

    name: str
    """Unique: it carries the run, the attempt, the time and a random end; by it an uncertain creation is found."""
    candidate: Candidate
    image: str
    argv: tuple[str, ...]
    """The main process, in exec form: replaces the image's entry point and command."""
    environment: Mapping[str, str]
    """Stamps and hashes; nothing secret, because the cloud shows it to every reader of the account."""
    port: int
    """The HTTP port that the agent listens on."""
    disk_gb: int
    mount_path: str
    """Where the disk that survives stop and start is mounted: `volume_gb` of its own, or the network volume."""
    volume_gb: int | None = None
    network_volume: str | None = None

    def sha256(self) -> str:
        """What identifies this request in the journal."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Machine:
    """One machine as the cloud describes it. What it does not say is None, and never a harmless-looking default."""

    id: str
    name: str
    status: Status
    status_text: str
    """The cloud's own word for it."""
    dollars_per_hour: float | None
    gpu: str | None = None
    gpus: int | None = None
    image: str | None = None
    mount_path: str | None = None
    """Where a disk that survives stop and start is mounted; None when there is none."""
    volume_gb: int | None = None
    network_volume: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    data_center: str | None = None
    created: str | None = None
    """ISO time."""


@dataclass(frozen=True)
class SelfStop:
    """One way for the agent to stop its own machine; `{NAME}` stands for a variable of the machine's environment.

    Either a command (`argv`) or an HTTP request (`url`, `method`, `headers`, `body`).
    """

    argv: tuple[str, ...] = ()
    url: str = ""
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""


@dataclass(frozen=True)
class CheckResult:
    """One line of a live check: what was tried and what came of it."""

    name: str
    passed: bool | None
    """None where nothing can fail, such as a key that is not set and may not be needed."""
    detail: str


class Provider(Protocol):
    """A cloud that rents machines by the hour."""

    name: str
    """What the backend is called: "runpod"."""
    secret_variables: tuple[str, ...]
    """Names in a machine's environment that the agent keeps from every stage."""

    def account(self) -> str:
        """A fingerprint of the account's key, never the key. Raises `NotAuthorized` when there is no key."""
        ...

    def candidates(self, needs: Needs) -> Sequence[Candidate]:
        """Machines that fit, in the order in which they should be tried. Creates nothing."""
        ...

    def create(self, request: CreateRequest) -> Machine:
        """Ask for one machine, once. An answer without an id is an `UncertainOutcome`."""
        ...

    def get(self, machine_id: str) -> Machine:
        """Describe one machine. Raises `NotFound`."""
        ...

    def list_all(self) -> Sequence[Machine]:
        """Every machine that the key can see, whoever made it: complete, or an error."""
        ...

    def stop(self, machine_id: str) -> None:
        """Ask to stop it and keep its disk."""
        ...

    def start(self, machine_id: str) -> None:
        """Ask to start a stopped machine. Raises `NoCapacity` when its host has no GPU free."""
        ...

    def delete(self, machine_id: str) -> None:
        """Ask to delete it with its own disk; a network volume stays. Returning proves nothing yet."""
        ...

    def system_logs(self, machine_id: str) -> Sequence[str]:
        """The last lines that the host wrote about the machine: image pulls, container errors."""
        ...

    def boot_failure(self, lines: Sequence[str]) -> str | None:
        """Why the machine can never start, read from its system logs; None while it still may."""
        ...

    def agent_url(self, machine_id: str, port: int) -> str:
        """Where the agent's port is reached from outside, without a slash at the end; https, or on this machine.

        Asked anew at each look: raises `Unreachable` while the machine has no address yet.
        """
        ...

    def console_url(self, machine_id: str) -> str:
        """The page on which a person sees the machine and can end it by hand."""
        ...

    def stopped_dollars_per_hour(self, volume_gb: int) -> float:
        """What the disk of a stopped machine costs."""
        ...

    def emergency_stop(self, machine_id: str) -> None:
        """Stop by a second, independent way, when the first has failed. Raises `NoSecondWay`."""
        ...

    def emergency_delete(self, machine_id: str) -> None:
        """Delete by a second, independent way, when the first has failed. Raises `NoSecondWay`."""
        ...

    def self_stop(self) -> Sequence[SelfStop]:
        """The ways by which the agent may stop its own machine, in the order in which it tries them."""
        ...


@runtime_checkable
class LiveCheck(Protocol):
    """A provider that can prove itself against the real service, for `lab doctor --backend NAME`."""

    def live_check(self, folder: Path, say: Callable[[str], None]) -> Sequence[CheckResult]:
        """Try the real service for a few cents and save its answers below `folder`; leaves no machine behind."""
        ...
