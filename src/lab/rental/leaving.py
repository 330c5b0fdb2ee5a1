"""How any state is left early: the machine is stopped if it may hold what exists nowhere else, deleted if not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental import cost
from lab.rental.facts import State

if TYPE_CHECKING:
    from lab.rental.facts import Then
    from lab.rental.rental import Rental


def leave(rental: Rental, reason: str, then: Then = "end") -> None:
    """Turn towards the end: `then="next"` lets the next candidate be tried once this machine is proved gone."""
    rental.say(reason)
    if not rental.facts.machine_id:
        rental.record(State.NO_MACHINE, "given up", reason=reason)
    elif rental.facts.holds_something:
        rental.record(State.STOPPING, "stop", reason=reason)
    else:
        rental.record(State.DELETING, "delete", reason=reason, then=then)


def gone(rental: Rental, evidence: str) -> None:
    """Nothing of the machine exists any more, and nobody here asked for that."""
    facts = rental.facts
    now = rental.now()
    state = State.DELETED if facts.verified else State.LOST
    rental.record(
        state,
        "gone",
        reason=evidence,
        deleted=[*facts.deleted, facts.machine_id],
        already_gone=True,
        ended=now,
        billed_seconds=cost.billed_seconds(facts, now),
        billing_since=0.0,
    )
    rental.say(f"machine {facts.machine_id} is gone: {evidence}")
