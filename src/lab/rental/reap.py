"""Everything of ours in the cloud against everything in the journals: what lives without a run comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.contracts import Receipt, Resource
from lab.errors import StillBilling
from lab.rental import archive, cost, naming, reconciling
from lab.rental.facts import ENDED, State
from lab.rental.journal import Held
from lab.rental.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental.backend import RentedBackend
    from lab.rental.provider import Machine
    from lab.rental.rental import Rental

ORPHAN = "orphan"
ELSEWHERE = "of another project"
HELD = "worked on by another process"
NO_WAIT_SECONDS = 0.0


@dataclass(frozen=True)
class Survey:
    """One complete listing held against the journals."""

    resources: tuple[Resource, ...]
    complete: bool
    """False when the cloud gave no complete listing, so that more may live than is known."""
    trouble: str = ""

    @property
    def orphans(self) -> tuple[Resource, ...]:
        """Machines of this project that live without a run."""
        return tuple(one for one in self.resources if one.state == ORPHAN)


def survey(backend: RentedBackend) -> Survey:
    """Look at everything; rentals that nobody works on are reconciled and finished on the way."""
    try:
        listing, trouble = tuple(backend.provider.list_all()), ""
    except ProviderError as error:
        listing, trouble = None, error.message
    ours = [
        run_id for run_id in archive.every(backend.store) if backend.facts(run_id).provider == backend.provider.name
    ]
    rentals = [_rental_row(backend, run_id, listing) for run_id in ours]
    known = {handle for row, handles in rentals for handle in handles}
    strangers = [_stranger(backend, machine) for machine in listing or () if machine.id not in known]
    rows = [*filter(None, strangers), *(row for row, _ in rentals if row is not None)]
    order = {ORPHAN: 0, str(State.ATTENTION): 1}
    rows.sort(key=lambda row: (order.get(row.state, 2), row.state == ELSEWHERE, row.created or ""))
    return Survey(tuple(rows), complete=listing is not None, trouble=trouble)


def owned(backend: RentedBackend) -> Sequence[Resource]:
    """What this project holds, orphans first; machines of other projects on the same account are not its own."""
    return [row for row in survey(backend).resources if row.state != ELSEWHERE]


def _rental_row(
    backend: RentedBackend, run_id: str, listing: Sequence[Machine] | None
) -> tuple[Resource | None, set[str]]:
    """The row of one rental, or None when it is over, and the ids of the machines that are accounted for by it."""
    try:
        with backend.opened(run_id, seconds=NO_WAIT_SECONDS) as rental:
            if listing is not None:
                reconciling.sweep(rental, listing)
            backend.glance(rental)
            facts = rental.facts
            handles = {facts.machine_id, *facts.extras}
            return (None if facts.state in ENDED else _row(rental)), handles
    except Held as error:
        facts = backend.facts(run_id)
        detail = {"process": error.holder}
        return Resource(facts.machine_id, run_id, HELD, detail=detail), {facts.machine_id, *facts.extras}


def _row(rental: Rental) -> Resource:
    facts = rental.facts
    stopped = facts.state is State.STOPPED
    rate = rental.provider.stopped_dollars_per_hour(facts.volume_gb or 0) if stopped else facts.dollars_per_hour
    return Resource(
        facts.machine_id or facts.name,
        rental.run.id,
        str(facts.state) if rental.run.path.is_dir() else ORPHAN,
        rate or 0.0,
        _iso(facts.created or facts.sent),
        {
            "dollars": round(cost.spent(facts, rental.now()), 4),
            "age_seconds": round(rental.now() - (facts.created or facts.sent or rental.now())),
            "gpu": facts.gpu or (facts.candidate.gpu if facts.candidate else None),
            "reason": facts.attention or facts.reason,
            "console": rental.provider.console_url(facts.machine_id) if facts.machine_id else None,
            "others": list(facts.extras),
        },
    )


def _stranger(backend: RentedBackend, machine: Machine) -> Resource | None:
    """A machine of no rental here: an orphan when this project's stamp is on it, else none of our business."""
    if machine.status == "terminated" or not naming.looks_like_lab(machine):
        return None
    mine = naming.is_ours(machine, naming.owner_of(backend.store))
    detail = {
        "name": machine.name,
        "status": machine.status_text,
        "run": machine.environment.get(naming.RUN),
        "console": backend.provider.console_url(machine.id),
        "gpu": machine.gpu,
    }
    state = ORPHAN if mine else ELSEWHERE
    return Resource(machine.id, None, state, machine.dollars_per_hour or 0.0, machine.created, detail)


def reap(
    backend: RentedBackend, machine_id: str | None = None, any_project: bool = False
) -> Sequence[tuple[str, State]]:
    """Delete orphans with proof, or the one named; each with the state that it was brought to."""
    allowed = (ORPHAN, ELSEWHERE) if any_project else (ORPHAN,)
    chosen = [row for row in survey(backend).resources if row.state in allowed and machine_id in (None, row.handle)]
    return [(row.handle, _reap(backend, row)) for row in chosen]


def _reap(backend: RentedBackend, row: Resource) -> State:
    """End one orphan as a rental of its own, so that what is done to it is on disk before it is done."""
    run_id = row.run_id or f"{ORPHAN}-{row.handle}"
    if row.run_id is None:
        _adopt(backend, run_id, row)
    try:
        backend.terminate(Receipt(backend.provider.name, run_id, row.handle))
    except StillBilling as error:
        backend.say(str(error))
    return backend.facts(run_id).state


def _adopt(backend: RentedBackend, run_id: str, row: Resource) -> None:
    journal = backend.journal(run_id)
    if journal.exists():
        return
    journal.create()
    known = {
        "provider": backend.provider.name,
        "account": backend.provider.account(),
        "run_path": str(journal.folder / "no-run"),
        "machine_id": row.handle,
        "name": row.detail.get("name"),
        "dollars_per_hour": row.dollars_per_hour,
        "then": "end",
    }
    journal.append(1, State.DELETING, "an orphan shall be deleted", known, {})


def _iso(moment: float) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment else None
