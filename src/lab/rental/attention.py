"""The loud end: a machine may still bill and lab cannot end it now, so a person is told its id and the one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import StillBilling
from lab.rental.facts import State

if TYPE_CHECKING:
    from lab.rental.facts import Facts
    from lab.rental.rental import Rental


def attention(rental: Rental, why: str) -> None:
    """Record that the present state could not be left; any later command tries it again."""
    rental.record(State.ATTENTION, "needs attention", pending=rental.facts.state, attention=why)
    rental.say(f"NEEDS ATTENTION: {rental.run.id}: {why}")


def ending_command(facts: Facts, run_id: str) -> str:
    """The one command that ends what still lives."""
    return f"lab rentals {'stop' if facts.holds_something else 'terminate'} {run_id}"


def named(rental: Rental) -> str:
    """What a person calls the machine."""
    return rental.facts.machine_id or rental.facts.name or "no machine yet"


def still_billing(rental: Rental) -> StillBilling:
    """What a person reads when the command ends with something alive."""
    facts = rental.facts
    rate = f" at ${facts.dollars_per_hour:.2f}/h" if facts.dollars_per_hour else ""
    named = ", ".join((*([facts.machine_id] if facts.machine_id else []), *facts.extras)) or facts.name
    page = f" {rental.provider.console_url(facts.machine_id)}" if facts.machine_id else ""
    return StillBilling(
        f"{rental.run.id}: {named} may still be billing{rate}: {facts.attention or facts.state}",
        f"Run `{ending_command(facts, rental.run.id)}` until it says that it is gone, or end it by hand.{page}",
    )
