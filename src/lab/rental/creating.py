"""Creating a machine: one request an attempt, never repeated, and a doubtful one settled by complete listings."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from lab.errors import StillBilling
from lab.rental import bootstrap, naming
from lab.rental.agent_contract import PORT
from lab.rental.attention import attention
from lab.rental.facts import State
from lab.rental.provider import (
    Candidate,
    CreateRequest,
    Forbidden,
    Gone,
    Machine,
    NoCapacity,
    NoCredit,
    NotAuthorized,
    ProviderError,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
)
from lab.rental.rental import Unwritable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental.rental import Rental

MOUNT_PATH = "/workspace"
RATE_SECONDS = 600.0
"""For how long a create request that was refused for its rate is asked again."""
WINDOW_SECONDS = 120.0
"""A machine may show up in listings this long after a request whose answer was lost."""
LISTINGS = 3
WINDOW_BUDGET_SECONDS = 600.0
FIRST_GAP_SECONDS = 5.0
LONGEST_GAP_SECONDS = 15.0


def create(rental: Rental) -> None:
    """PLANNED: ask for the next candidate, with the intent on disk before the request leaves."""
    facts = rental.facts
    if facts.attempt >= len(facts.candidates):
        rental.record(State.NO_MACHINE, "no candidate is left")
        return
    candidate = facts.candidates[facts.attempt]
    request, nonce = prepared(rental, candidate)
    rental.record(
        State.CREATING,
        "create",
        {"request_sha256": request.sha256()},
        attempt=facts.attempt + 1,
        candidate=candidate.record(),
        name=request.name,
        nonce=nonce,
        nonces={**facts.nonces, request.name: nonce},
        sent=rental.clock.wall(),
        machine_id="",
        then="next",
    )
    rental.say(f"asking for {candidate.gpu} at ${candidate.dollars_per_hour:.2f}/h as {request.name}")
    _post(rental, request)


def prepared(rental: Rental, candidate: Candidate) -> tuple[CreateRequest, str]:
    """The request for one candidate, and the nonce that proves its agent."""
    facts = rental.facts
    nonce = secrets.token_hex(16)
    name = naming.machine_name(rental.run.id, facts.attempt + 1, rental.clock.wall(), secrets.token_hex(3))
    request = CreateRequest(
        name=name,
        candidate=candidate,
        image=rental.job.needs.image or "",
        argv=bootstrap.argv(),
        environment=bootstrap.environment(rental, nonce, MOUNT_PATH),
        port=PORT,
        disk_gb=rental.job.needs.disk_gb,
        mount_path=MOUNT_PATH,
        volume_gb=facts.volume_gb,
        network_volume=facts.network_volume,
    )
    return request, nonce


def _post(rental: Rental, request: CreateRequest) -> None:
    until = rental.clock.monotonic() + RATE_SECONDS
    while True:
        try:
            machine = rental.provider.create(request)
        except RateLimited as limited:
            if rental.interrupted() or rental.clock.monotonic() + limited.retry_after > until:
                rental.record(State.NO_MACHINE, "refused for its rate", reason=limited.message)
                return
            rental.note("refused for its rate", {"seconds": limited.retry_after})
            rental.clock.sleep(limited.retry_after)
        except (NoCapacity, Forbidden) as error:
            rental.say(f"{request.candidate.gpu}: {error.message}")
            rental.record(State.PLANNED, "refused", reason=error.message)
            return
        except (NoCredit, NotAuthorized, Gone, RequestRejected) as error:
            kind = type(error).__name__
            rental.record(State.NO_MACHINE, "refused for good", {"kind": kind}, reason=error.message)
            return
        except (Unreachable, UncertainOutcome) as error:
            rental.record(State.UNCERTAIN, "no certain answer", reason=error.message)
            return
        else:
            adopt(rental, machine, "created")
            return


def adopt(rental: Rental, machine: Machine, event: str) -> None:
    """Write down the machine before anything else is done with it."""
    now = rental.now()
    try:
        rental.record(
            State.BOOTING,
            event,
            machine_id=machine.id,
            dollars_per_hour=machine.dollars_per_hour,
            gpu=machine.gpu,
            gpus=machine.gpus,
            mount_path=machine.mount_path,
            data_center=machine.data_center,
            created=now,
            billing_since=rental.facts.sent or now,
            boot_id="",
            stale_boot_id="",
            ready=0.0,
            billed_seconds=0.0,
            reason="",
        )
    except Unwritable as error:
        raise _forgotten(rental, machine, error) from error
    rental.say(f"machine {machine.id} exists; it bills ${machine.dollars_per_hour or 0:.2f}/h")


def _forgotten(rental: Rental, machine: Machine, error: Unwritable) -> StillBilling:
    """The disk that should remember the machine cannot: end the machine now, because nobody would later."""
    try:
        rental.provider.delete(machine.id)
        ending = "It was asked to be deleted"
    except ProviderError as fault:
        ending = f"Deleting it failed too ({fault.message})"
    return StillBilling(
        f"Machine {machine.id} was created, but cannot be written down. {ending}. {error.what}",
        f"Free space there, then run `lab rentals`. Check {rental.provider.console_url(machine.id)}",
    )


def resume_creating(rental: Rental) -> None:
    """CREATING, found by a later command: the controller ended before it heard the answer."""
    rental.record(State.UNCERTAIN, "the controller ended before the answer")


def settle_doubt(rental: Rental) -> None:
    """UNCERTAIN: look for the machine in complete listings until it must have shown up."""
    rental.say(f"it is not certain whether {rental.facts.name} was created; looking for it")
    until = rental.clock.monotonic() + WINDOW_SECONDS
    latest = rental.clock.monotonic() + WINDOW_BUDGET_SECONDS
    listings, gap = 0, FIRST_GAP_SECONDS
    while listings < LISTINGS or rental.clock.monotonic() < until:
        try:
            found = matches(rental, rental.listing())
            listings += 1
        except Unreachable as error:
            if rental.clock.monotonic() >= latest:
                attention(rental, f"the cloud gives no complete listing: {error.message}")
                return
            found = []
        if found:
            _found(rental, found)
            return
        rental.clock.sleep(gap)
        gap = min(LONGEST_GAP_SECONDS, gap * 1.5)
    rental.say(f"{rental.facts.name} was not created, as {listings} complete listings show")
    rental.record(State.PLANNED, "absent from complete listings", {"listings": listings})


def matches(rental: Rental, listing: Sequence[Machine]) -> list[Machine]:
    """The machines that this create request made, oldest first: its name and its nonce, not its name alone."""
    facts = rental.facts
    found = [m for m in listing if m.name == facts.name and m.environment.get(naming.NONCE) == facts.nonce]
    return sorted((m for m in found if m.status != "terminated"), key=lambda m: (m.created or "", m.id))


def _found(rental: Rental, found: Sequence[Machine]) -> None:
    extras = [machine.id for machine in found[1:]]
    if extras:
        rental.note("one request made several machines", extras=[*rental.facts.extras, *extras])
    adopt(rental, found[0], "found in a listing")
