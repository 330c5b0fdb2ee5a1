"""What every command does first: find out what became of a rental whose controller may have vanished, and finish it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import StillBilling
from lab.rental import lifecycle, naming, running, stopping
from lab.rental.agent_contract import AgentError
from lab.rental.facts import RESTING, State
from lab.rental.leaving import leave
from lab.rental.provider import NotAuthorized

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental.provider import Machine
    from lab.rental.rental import Rental

FINISHING = frozenset({State.UNCERTAIN, State.VERIFIED, State.DELETING, State.CONFIRMING, State.STOPPING})
"""States that any command leads to their end: they only ever stop money from being spent."""


def reconcile(rental: Rental, going_on: bool = False) -> None:
    """Bring the rental to where nothing dangling is left. With `going_on`, one that never started is not ended."""
    same_account(rental)
    facts = rental.facts
    if facts.state is State.ATTENTION:
        rental.record(facts.pending or State.DELETING, "trying again")
    if rental.facts.state is State.CREATING:
        lifecycle.guarded(rental, lifecycle.HANDLERS[State.CREATING])
    if rental.facts.state is State.UNCERTAIN:
        lifecycle.guarded(rental, lifecycle.HANDLERS[State.UNCERTAIN])
    if rental.facts.then == "next" and rental.facts.state not in RESTING:
        rental.note("no further candidate is tried", then="end")
    if rental.facts.state in (State.BOOTING, State.SENDING, State.LAUNCHING, State.PLANNED, State.STARTING):
        _resume_or_end(rental, going_on)
    if rental.facts.state in FINISHING or rental.facts.extras:
        lifecycle.drive(rental, until={State.FINISHED, State.BOOTING, State.SENDING, State.LAUNCHING})


def same_account(rental: Rental) -> None:
    """Refuse to judge with another key, or none: to it, a machine that lives looks deleted."""
    if rental.ended or not rental.facts.account:
        return
    try:
        other = rental.provider.account() != rental.facts.account
        said = "was rented with another key than the present one"
    except NotAuthorized as error:
        other, said = True, f"cannot be looked after: {error.message}"
    if other:
        raise StillBilling(
            f"{rental.run.id} {said}, so nothing was done.",
            f"Use the key of then. {rental.provider.console_url(rental.facts.machine_id)}",
        )


def _resume_or_end(rental: Rental, going_on: bool) -> None:
    """Nobody works on this rental, so what had not come to a job is ended, unless the command goes on with it."""
    if rental.facts.state is State.LAUNCHING:
        _ask_whether_it_started(rental, going_on)
    elif rental.facts.state is State.STARTING:
        _settle_start(rental)
    elif rental.facts.state is State.PLANNED:
        rental.record(State.NO_MACHINE, "the controller ended before a machine was made")
    elif rental.facts.state in (State.BOOTING, State.SENDING) and not going_on:
        leave(rental, "the controller ended before the job started")
        lifecycle.drive(rental)


def _ask_whether_it_started(rental: Rental, going_on: bool) -> None:
    try:
        job = rental.agent().poll(None).job
    except AgentError as error:
        leave(rental, f"it is not known whether the job started: {error}")
        lifecycle.drive(rental)
        return
    if job is not None and job.request_id == rental.facts.request_id:
        rental.record(State.RUNNING, "the job had been accepted", accepted=True, exited=False)
        return
    rental.record(State.SENDING, "the job had not been started", asked=False)
    if not going_on:
        leave(rental, "the controller ended before the job started")
        lifecycle.drive(rental)


def _settle_start(rental: Rental) -> None:
    def settle(rental: Rental) -> None:
        if stopping.settle_start(rental) is State.STOPPED:
            rental.record(State.STOPPED, "was not started")

    lifecycle.guarded(rental, settle)


def sweep(rental: Rental, listing: Sequence[Machine]) -> None:
    """Hold a complete listing against the facts: late children of doubtful requests, machines stopped meanwhile."""
    facts = rental.facts
    known = {facts.machine_id, *facts.extras} if not rental.ended else set(facts.extras)
    late = [
        machine.id
        for machine in listing
        if machine.id not in known
        and machine.status != "terminated"
        and machine.name in facts.nonces
        and machine.environment.get(naming.NONCE) == facts.nonces[machine.name]
    ]
    if late:
        rental.note("a machine of this run turned up late", extras=[*facts.extras, *late])
        rental.say(f"{', '.join(late)} belongs to {rental.run.id} and is not in use: deleting it")
    machine = next((machine for machine in listing if machine.id == facts.machine_id), None)
    if facts.state is State.RUNNING and machine is not None and machine.status == "stopped":
        running.found_stopped(rental, machine.status_text)
    if rental.facts.extras:
        lifecycle.end_extras(rental)
