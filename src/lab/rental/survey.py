"""Everything of ours in the cloud against everything in the journals: what lives without a run comes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.contracts import Resource
from lab.rental import archive, cost, naming, reconciling
from lab.rental.facts import ENDED, State
from lab.rental.journal import Held
from lab.rental.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental.opening import Rentals
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


def survey(rentals: Rentals) -> Survey:
    """Look at everything; rentals that nobody works on are reconciled and finished on the way."""
    try:
        listing, trouble = tuple(rentals.provider.list_all()), ""
    except ProviderError as error:
        listing, trouble = None, error.message
    ours = [
        run_id for run_id in archive.every(rentals.store) if rentals.facts(run_id).provider == rentals.provider.name
    ]
    held = [_rental_row(rentals, run_id, listing) for run_id in ours]
    known = {handle for row, handles in held for handle in handles}
    strangers = [_stranger(rentals, machine) for machine in listing or () if machine.id not in known]
    rows = [*filter(None, strangers), *(row for row, _ in held if row is not None)]
    order = {ORPHAN: 0, str(State.ATTENTION): 1}
    rows.sort(key=lambda row: (order.get(row.state, 2), row.state == ELSEWHERE, row.created or ""))
    return Survey(tuple(rows), complete=listing is not None, trouble=trouble)


def owned(rentals: Rentals) -> Sequence[Resource]:
    """What this project holds, orphans first; machines of other projects on the same account are not its own."""
    return [row for row in survey(rentals).resources if row.state != ELSEWHERE]


def _rental_row(rentals: Rentals, run_id: str, listing: Sequence[Machine] | None) -> tuple[Resource | None, set[str]]:
    """The row of one rental, or None when it is over, and the ids of the machines that are accounted for by it."""
    try:
        with rentals.opened(run_id, seconds=NO_WAIT_SECONDS) as rental:
            if listing is not None:
                reconciling.sweep(rental, listing)
            rentals.glance(rental)
            facts = rental.facts
            handles = {facts.machine_id, *facts.extras}
            return (None if facts.state in ENDED else _row(rental)), handles
    except Held as error:
        facts = rentals.facts(run_id)
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


def _stranger(rentals: Rentals, machine: Machine) -> Resource | None:
    """A machine of no rental here: an orphan when this project's stamp is on it, else none of our business."""
    if machine.status == "terminated" or not naming.looks_like_lab(machine):
        return None
    mine = naming.is_ours(machine, naming.owner_of(rentals.store))
    detail = {
        "name": machine.name,
        "status": machine.status_text,
        "run": machine.environment.get(naming.RUN),
        "console": rentals.provider.console_url(machine.id),
        "gpu": machine.gpu,
    }
    state = ORPHAN if mine else ELSEWHERE
    return Resource(machine.id, None, state, machine.dollars_per_hour or 0.0, machine.created, detail)


def _iso(moment: float) -> str | None:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds") if moment else None
