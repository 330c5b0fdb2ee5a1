"""What a rental's journal says in all: its state and what is known, as a fold of its records."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal

from lab.rental.provider import Candidate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lab.rental.journal import Record


class State(StrEnum):
    """Where a rental is. Each state is recorded before the act that belongs to it."""

    PLANNED = "planned"
    """Nothing was asked of the cloud, or everything asked so far is proved gone; the next candidate may be tried."""
    CREATING = "creating"
    """The create request may have been sent."""
    UNCERTAIN = "uncertain"
    """It was sent and nobody knows whether a machine exists; only complete listings can tell."""
    BOOTING = "booting"
    """The machine's id is known; its agent has not proved itself."""
    SENDING = "sending"
    """The agent is ready; the bundle is on its way."""
    LAUNCHING = "launching"
    """The job's start may have been asked for."""
    RUNNING = "running"
    """The agent has accepted the job."""
    FINISHED = "finished"
    """No stage runs any more; the results are on the machine."""
    VERIFIED = "verified"
    """Every result is home and has the hash that the machine gave."""
    DELETING = "deleting"
    """The machine shall be deleted."""
    CONFIRMING = "confirming"
    """The cloud was asked to delete it; that is not proved."""
    DELETED = "deleted"
    """Proved: nothing of this rental exists any more."""
    STOPPING = "stopping"
    """The machine shall be stopped and its disk kept."""
    STOPPED = "stopped"
    """The machine is stopped; its disk is kept and costs money."""
    STARTING = "starting"
    """The stopped machine shall be started."""
    LOST = "lost"
    """Proved gone although nobody here deleted it; what was not home is lost."""
    ATTENTION = "needs attention"
    """A machine may bill and lab cannot end it now; `pending` is what any command tries again."""
    NO_MACHINE = "no machine"
    """No machine was ever made, or each was proved gone before the job started."""


ENDED = frozenset({State.DELETED, State.LOST, State.NO_MACHINE})
"""Nothing exists any more."""
RESTING = ENDED | {State.STOPPED, State.ATTENTION}
"""Nothing goes on by itself."""
BEFORE_THE_JOB = frozenset({State.PLANNED, State.CREATING, State.UNCERTAIN, State.BOOTING, State.SENDING})

Then = Literal["end", "next"]


@dataclass(frozen=True)
class Facts:
    """One rental, as far as its journal knows. A record's data sets the fields of the same name."""

    state: State = State.PLANNED
    since: float = 0.0
    """Wall time of the last change of state."""
    records: int = 0

    # decided when it was planned
    provider: str = ""
    account: str = ""
    run_path: str = ""
    planned: float = 0.0
    max_dollars_per_hour: float | None = None
    max_dollars: float = 0.0
    """The most that this rental may cost; always set, because it is what the person agreed to."""
    seconds: float = 0.0
    """The job's own limit."""
    ready_seconds: float = 0.0
    keep: bool = False
    volume_gb: int | None = None
    network_volume: str | None = None
    candidates: tuple[Candidate, ...] = ()

    # the attempt
    attempt: int = 0
    """Which create request this is, from 1; also the index of the next candidate."""
    candidate: Candidate | None = None
    name: str = ""
    nonce: str = ""
    nonces: Mapping[str, str] = field(default_factory=dict)
    """Every name that was ever sent in a create request, with its nonce: what turns up under one is ours."""
    sent: float = 0.0
    """Wall time of the last create request."""

    # the machine
    machine_id: str = ""
    extras: tuple[str, ...] = ()
    """Machines of ours beside the one in use, to be deleted with proof."""
    deleted: tuple[str, ...] = ()
    """Machines of this rental that were proved gone."""
    created: float = 0.0
    """Wall time at which the cloud answered that it exists."""
    billing_since: float = 0.0
    """Wall time from which it bills at its full rate; 0 while it does not."""
    dollars_per_hour: float | None = None
    gpu: str | None = None
    gpus: int | None = None
    mount_path: str | None = None
    data_center: str | None = None
    boot_id: str = ""
    """Of the agent's last trusted answer."""
    stale_boot_id: str = ""
    """The boot before the machine was started again: an answer with it comes from the past."""
    ready: float = 0.0
    billed_seconds: float = 0.0
    """Seconds at the full rate in earlier boots of the machine, before it was stopped."""
    spent_before: float = 0.0
    """Dollars for machines of this rental that are gone."""

    # the job
    request_id: str = ""
    job_attempt: int = 0
    purpose: Literal["run", "collect"] = "run"
    asked: bool = False
    """The job's start was asked for: from here on there may be something worth keeping."""
    accepted: bool = False
    """The agent took the job."""
    exit_code: int | None = None
    exit_reason: str = ""
    exited: bool = False
    """There is an exit record, or proof that there will be none."""
    job_finished: float = 0.0
    collected: float = 0.0
    verified: bool = False
    uncollected: tuple[str, ...] = ()

    # the end
    reason: str = ""
    then: Then = "end"
    by_user: bool = False
    """A person asked for the deletion, whatever is on the machine."""
    ended: float = 0.0
    """Wall time at which the machine stopped billing for good."""
    already_gone: bool = False
    attention: str = ""
    """Why a person is needed, in the state of that name."""
    pending: State | None = None
    """What is tried again when attention was needed."""

    @property
    def holds_something(self) -> bool:
        """Whether the machine has, or may have, what exists nowhere else."""
        return not self.verified and (self.accepted or self.asked)

    @property
    def alive(self) -> bool:
        """Whether a machine of this rental exists, as far as is known."""
        return bool(self.machine_id) and self.machine_id not in self.deleted and self.state not in ENDED


FIELDS = frozenset(item.name for item in fields(Facts)) - {"state", "since", "records"}
"""What a record may set."""
_TUPLES = {"extras", "deleted", "uncollected"}


def fold(records: Iterable[Record]) -> Facts:
    """What all records together say."""
    facts = Facts()
    for record in records:
        facts = after(facts, record)
    return facts


def after(facts: Facts, record: Record) -> Facts:
    """What is known once `record` was written."""
    state = State(record["state"])
    known = {key: _value(key, value) for key, value in record["data"].items() if key in FIELDS}
    since = facts.since if state is facts.state and facts.records else record["time"]
    return replace(facts, state=state, since=since, records=record["seq"], **known)


def _value(key: str, value: Any) -> Any:
    if key in _TUPLES:
        return tuple(value)
    if key == "candidates":
        return tuple(Candidate(**item) for item in value)
    if key == "candidate":
        return Candidate(**value) if value is not None else None
    if key == "pending":
        return State(value) if value is not None else None
    return value
