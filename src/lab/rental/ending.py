"""Deleting a machine and proving it: two 404 and absence from two complete listings, under the same account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental import cost
from lab.rental.absence import Absence
from lab.rental.attention import attention
from lab.rental.facts import State
from lab.rental.provider import (
    Conflict,
    NoSecondWay,
    NotFound,
    ProviderError,
    RateLimited,
    UncertainOutcome,
    Unreachable,
)

if TYPE_CHECKING:
    from lab.rental.rental import Rental

BUDGET_SECONDS = 300.0
EMERGENCY_SECONDS = 120.0
"""After so long without success the second, independent way is tried."""
GAP_SECONDS = 5.0
NOT_FOUND = 2
UNLISTED = 2


def delete(rental: Rental) -> None:
    """DELETING: ask until the cloud has taken it in, within this command's time."""
    _must_be_allowed(rental)
    attempt = 0
    while (left := rental.time_left(State.DELETING, BUDGET_SECONDS)) > 0:
        known = ask_to_delete(rental, rental.facts.machine_id, emergency=BUDGET_SECONDS - left >= EMERGENCY_SECONDS)
        if known is not None:
            rental.record(State.CONFIRMING, "asked to delete" if known else "not known there", already_gone=not known)
            return
        rental.clock.sleep(1.0 + rental.backoff(attempt))
        attempt += 1
    attention(rental, "deleting it did not succeed")


def ask_to_delete(rental: Rental, machine_id: str, emergency: bool) -> bool | None:
    """Ask once: True when the cloud took it in, False when it knows no such machine, None when nobody knows."""
    try:
        rental.provider.delete(machine_id)
    except NotFound:
        return False
    except RateLimited as limited:
        rental.clock.sleep(min(limited.retry_after, EMERGENCY_SECONDS))
    except (Conflict, Unreachable, UncertainOutcome) as error:
        rental.note("deleting was not answered well", {"answer": error.message, "machine": machine_id})
    else:
        return True
    return _second_way(rental, machine_id) if emergency else None


def _second_way(rental: Rental, machine_id: str) -> bool | None:
    try:
        rental.provider.emergency_delete(machine_id)
    except NoSecondWay:
        return None
    except ProviderError as error:
        rental.note("the second way failed too", {"answer": error.message, "machine": machine_id})
        return None
    return True


def _must_be_allowed(rental: Rental) -> None:
    """The last guard before results could be destroyed; reaching it with results is our own mistake."""
    facts = rental.facts
    assert not facts.holds_something or facts.by_user, "a machine with results that are not home is never deleted"


def confirm(rental: Rental) -> None:
    """CONFIRMING: gather proof; a sign of life means asking again."""
    absence = Absence(rental, rental.facts.machine_id, NOT_FOUND, UNLISTED)
    while rental.time_left(State.CONFIRMING, BUDGET_SECONDS) > 0:
        sight = absence.observe()
        if absence.proved:
            _proved(rental)
            return
        if sight == "alive":
            rental.clock.sleep(GAP_SECONDS)
            rental.record(State.DELETING, "still there")
            return
        rental.clock.sleep(GAP_SECONDS)
    attention(rental, "it was asked to be deleted, but it is not proved gone")


def _proved(rental: Rental) -> None:
    facts, now = rental.facts, rental.now()
    final = State.PLANNED if facts.then == "next" and not facts.accepted else State.DELETED
    data: dict[str, object] = {
        "deleted": [*facts.deleted, facts.machine_id],
        "ended": now,
        "billed_seconds": cost.billed_seconds(facts, now),
        "billing_since": 0.0,
    }
    if final is State.PLANNED:
        data |= {
            "machine_id": "",
            "spent_before": cost.spent(facts, now),
            "billed_seconds": 0.0,
            "dollars_per_hour": None,
        }
    rental.record(final, "proved gone", **data)
    rental.say(f"machine {facts.machine_id} is deleted, as two 404 and two complete listings prove")


def remove_extras(rental: Rental) -> bool:
    """Delete with proof every machine of ours beside the one in use; whether none is left."""
    for machine_id in rental.facts.extras:
        if not _removed(rental, machine_id):
            return False
        rest = [other for other in rental.facts.extras if other != machine_id]
        rental.note("extra machine proved gone", extras=rest, deleted=[*rental.facts.deleted, machine_id])
    return True


def _removed(rental: Rental, machine_id: str) -> bool:
    absence = Absence(rental, machine_id, NOT_FOUND, UNLISTED)
    until = rental.clock.monotonic() + BUDGET_SECONDS
    asked = False
    while rental.clock.monotonic() < until:
        late = rental.clock.monotonic() > until - BUDGET_SECONDS + EMERGENCY_SECONDS
        asked = asked or ask_to_delete(rental, machine_id, emergency=late) is not None
        sight = absence.observe()
        if absence.proved:
            return True
        asked = asked and sight != "alive"
        rental.clock.sleep(GAP_SECONDS)
    return False
