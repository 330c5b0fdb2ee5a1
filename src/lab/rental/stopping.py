"""Stopping a machine so that its disk stays, and starting it again: both settled by what the cloud shows afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental import cost
from lab.rental.absence import Absence
from lab.rental.agent_contract import AgentError
from lab.rental.attention import attention
from lab.rental.facts import State
from lab.rental.leaving import gone
from lab.rental.provider import (
    Conflict,
    NoCapacity,
    NoCredit,
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
AGAIN_SECONDS = 30.0
"""A machine that was asked to stop and still runs is asked again so often."""
GAP_SECONDS = 5.0
SAVE_SECONDS = 30.0
SIGHTINGS = 2
START_TRIES = 3


def stop(rental: Rental) -> None:
    """STOPPING: let the worker save, then ask until the cloud shows the machine stopped, twice."""
    _let_it_save(rental)
    pursuit = _Pursuit(rental)
    while rental.facts.state is State.STOPPING:
        if rental.time_left(State.STOPPING, BUDGET_SECONDS) <= 0:
            attention(rental, "stopping it did not succeed")
            return
        pursuit.step()
        if rental.facts.state is State.STOPPING:
            rental.clock.sleep(GAP_SECONDS)


class _Pursuit:
    """What is remembered between two looks at a machine that shall stop."""

    def __init__(self, rental: Rental) -> None:
        self.rental = rental
        self.started = rental.clock.monotonic()
        self.asked = -AGAIN_SECONDS
        self.stopped = 0
        self.absence = Absence(rental, rental.facts.machine_id, not_found=3, unlisted=2)

    def step(self) -> None:
        """Ask when it is time to, then look."""
        now = self.rental.clock.monotonic()
        if not self.stopped and now - self.asked >= AGAIN_SECONDS:
            self.asked = now
            self._ask()
            if now - self.started >= EMERGENCY_SECONDS:
                self._second_way()
        sight = self.absence.observe()
        if self.absence.proved:
            gone(self.rental, "the cloud knows the machine no more")
        elif sight == "alive" and self.absence.last is not None:
            self.stopped = self.stopped + 1 if self.absence.last.status == "stopped" else 0
            if self.stopped >= SIGHTINGS:
                _stopped(self.rental)

    def _ask(self) -> None:
        try:
            self.rental.provider.stop(self.rental.facts.machine_id)
        except RateLimited as limited:
            self.rental.clock.sleep(min(limited.retry_after, AGAIN_SECONDS))
        except (NotFound, Conflict, Unreachable, UncertainOutcome) as error:
            self.rental.note("stopping was not answered well", {"answer": error.message})

    def _second_way(self) -> None:
        try:
            self.rental.provider.emergency_stop(self.rental.facts.machine_id)
        except NoSecondWay:
            return
        except ProviderError as error:
            self.rental.note("the second way failed too", {"answer": error.message})


def _let_it_save(rental: Rental) -> None:
    """Give a running job a moment to finish its step and save; a silent agent delays nothing."""
    if rental.facts.exited or not rental.facts.accepted:
        return
    until = rental.clock.monotonic() + SAVE_SECONDS
    try:
        agent = rental.agent()
        agent.stop_job(SAVE_SECONDS)
        while rental.clock.monotonic() < until:
            report = agent.poll(None).job
            if report is None or report.phase != "running":
                exited = report is not None and report.phase == "exited"
                code = report.exit_code if report else None
                rental.note("the job saved and ended", exited=exited, exit_code=code, job_finished=rental.now())
                return
            rental.clock.sleep(1.0)
    except AgentError as error:
        rental.say(f"the job could not be asked to save: {error}")


def _stopped(rental: Rental) -> None:
    facts, now = rental.facts, rental.now()
    rental.record(
        State.STOPPED, "stopped", billed_seconds=cost.billed_seconds(facts, now), billing_since=0.0
    )  # fmt: skip
    price = rental.provider.stopped_dollars_per_hour(facts.volume_gb or 0)
    rental.say(
        f"machine {facts.machine_id} is stopped; its disk is kept and costs ${price * 24:.2f} a day "
        f"until `lab rentals terminate {rental.run.id}`"
    )


def start(rental: Rental) -> None:
    """STARTING: ask once, then believe what the cloud shows."""
    for attempt in range(START_TRIES):
        try:
            rental.provider.start(rental.facts.machine_id)
        except (NoCapacity, NoCredit) as error:
            rental.record(State.STOPPED, "cannot be started", reason=error.message)
            return
        except RateLimited as limited:
            rental.clock.sleep(limited.retry_after)
        except (NotFound, Conflict, Unreachable, UncertainOutcome) as error:
            rental.note("starting was not answered well", {"answer": error.message})
        if settle_start(rental) is not State.STOPPED:
            return
        rental.clock.sleep(GAP_SECONDS + rental.backoff(attempt))
    rental.record(State.STOPPED, "cannot be started", reason="the cloud was asked and did not start it")


def settle_start(rental: Rental) -> State | None:
    """Look what a start request came to; STOPPED leaves the state as it is, for another try."""
    absence = Absence(rental, rental.facts.machine_id, not_found=3, unlisted=2)
    until = rental.clock.monotonic() + AGAIN_SECONDS
    while rental.clock.monotonic() < until:
        sight = absence.observe()
        if absence.proved:
            gone(rental, "the cloud knows the machine no more")
            return rental.facts.state
        if sight == "alive" and absence.last is not None:
            if absence.last.status == "stopped":
                return State.STOPPED
            _started(rental)
            return State.BOOTING
        rental.clock.sleep(GAP_SECONDS)
    attention(rental, "it is not known whether the machine was started")
    return State.ATTENTION


def _started(rental: Rental) -> None:
    facts = rental.facts
    rental.record(
        State.BOOTING, "started", stale_boot_id=facts.boot_id, billing_since=rental.now(), ready=0.0, reason=""
    )  # fmt: skip
    rental.say(f"machine {facts.machine_id} starts again")
