"""From a machine that the cloud says exists to an agent that proved itself: nothing in between counts as ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental.absence import Absence
from lab.rental.agent_contract import AgentError, AgentRefused, Hello
from lab.rental.facts import State
from lab.rental.leaving import gone, leave
from lab.rental.provider import ProviderError, Unreachable

if TYPE_CHECKING:
    from lab.rental.facts import Facts
    from lab.rental.provider import Machine
    from lab.rental.rental import Rental

POLL_SECONDS = 5.0
GRACE_SECONDS = 60.0
"""A machine may be unknown to GET for so long after it was created."""
LOGS_AFTER_SECONDS = 60.0
LOGS_EVERY_SECONDS = 30.0


def boot(rental: Rental) -> None:
    """BOOTING: check what was rented, then wait until its agent answers with this run's nonce."""
    fault = violation(rental.facts)
    if fault:
        leave(rental, fault, then="next")
        return
    watch = _Watch(rental)
    while rental.facts.state is State.BOOTING:
        watch.step()
        if rental.facts.state is State.BOOTING:
            rental.pause(POLL_SECONDS)


def violation(facts: Facts) -> str | None:
    """Why this machine is not the one that was asked for, or costs more than was allowed."""
    rate, candidate = facts.dollars_per_hour, facts.candidate
    if rate is None or rate < 0:
        return "the cloud gave no price for the machine"
    if facts.max_dollars_per_hour is not None and rate > facts.max_dollars_per_hour:
        return f"it costs ${rate:.3f}/h, above the cap of ${facts.max_dollars_per_hour:.3f}/h"
    if facts.mount_path is None:
        return "it has no disk that survives a stop"
    if candidate and facts.gpu is not None and facts.gpu != candidate.gpu:
        return f"it has a {facts.gpu}, not the {candidate.gpu} asked for"
    if candidate and facts.gpus is not None and facts.gpus != candidate.gpus:
        return f"it has {facts.gpus} GPUs, not {candidate.gpus}"
    return None


class _Watch:
    """What is remembered between two looks at a booting machine."""

    def __init__(self, rental: Rental) -> None:
        self.rental = rental
        self.started = rental.clock.monotonic()
        self.absence = Absence(rental, rental.facts.machine_id, not_found=3, unlisted=2)
        self.seen = False
        self.logs_at = self.started + LOGS_AFTER_SECONDS
        self.doubt = "its agent never answered"

    @property
    def elapsed(self) -> float:
        """Seconds since this command began to wait."""
        return self.rental.clock.monotonic() - self.started

    def step(self) -> None:
        """Look once each way, and leave the state when there is a reason to."""
        self._greet()
        if self.rental.facts.state is State.BOOTING:
            self._look()
        if self.rental.facts.state is State.BOOTING:
            self._read_logs()
        if self.rental.facts.state is State.BOOTING and self.elapsed >= self.rental.facts.ready_seconds:
            leave(self.rental, f"not ready after {self.elapsed:.0f} s: {self.doubt}", then="next")

    def _greet(self) -> None:
        try:
            hello = self.rental.agent().hello()
        except AgentRefused as error:
            self.doubt = f"something answers that does not accept this run's token: {error}"
        except AgentError as error:
            self.doubt = f"its agent does not answer: {error}"
        else:
            self._judge(hello)

    def _judge(self, hello: Hello) -> None:
        facts = self.rental.facts
        if hello.nonce != facts.nonce:
            self.doubt = "something answers without this run's nonce"
        elif hello.boot_id == facts.stale_boot_id:
            self.doubt = "only the boot before the restart answers"
        else:
            welcome(self.rental, hello)

    def _look(self) -> None:
        if not self.seen and self.elapsed < GRACE_SECONDS and not self.rental.facts.stale_boot_id:
            machine = self._first_sight()
        else:
            sight = self.absence.observe()
            machine = self.absence.last if sight in ("alive", "ending") else None
            if self.absence.proved:
                gone(self.rental, "the cloud knows the machine no more")
        if machine is not None:
            self.seen = True
            self._judge_status(machine)

    def _first_sight(self) -> Machine | None:
        try:
            return self.rental.look()
        except Unreachable:
            return None

    def _judge_status(self, machine: Machine) -> None:
        word = f"the cloud calls it {machine.status_text}"
        if machine.status == "failed":
            leave(self.rental, f"it failed to start: {word}", then="next")
        elif machine.status == "stopped" and not self.rental.facts.stale_boot_id:
            leave(self.rental, f"it was stopped while it started: {word}")
        elif machine.status == "terminated":
            leave(self.rental, f"it was deleted while it started: {word}")
        elif machine.dollars_per_hour is not None and machine.dollars_per_hour != self.rental.facts.dollars_per_hour:
            self._new_price(machine.dollars_per_hour)

    def _new_price(self, dollars_per_hour: float) -> None:
        self.rental.note("another price", dollars_per_hour=dollars_per_hour)
        fault = violation(self.rental.facts)
        if fault:
            leave(self.rental, fault, then="next")

    def _read_logs(self) -> None:
        if self.rental.clock.monotonic() < self.logs_at:
            return
        self.logs_at = self.rental.clock.monotonic() + LOGS_EVERY_SECONDS
        try:
            lines = self.rental.provider.system_logs(self.rental.facts.machine_id)
        except ProviderError:
            return
        fault = self.rental.provider.boot_failure(lines)
        if fault:
            leave(self.rental, f"its container cannot start: {fault}", then="next")


def welcome(rental: Rental, hello: Hello) -> None:
    """The agent proved itself: check the GPUs it sees, then go on to what the machine is for."""
    facts = rental.facts
    wanted = facts.candidate.gpus if facts.candidate else 1
    enough = len(hello.gpus) == wanted
    if not enough and not facts.holds_something:
        leave(rental, f"its agent sees {len(hello.gpus)} GPUs, not {wanted}", then="next")
        return
    known: dict[str, object] = {"boot_id": hello.boot_id, "ready": rental.now()}
    detail = {"gpus": list(hello.gpus), "disk_free_bytes": hello.disk_free_bytes}
    if facts.holds_something and (facts.purpose == "collect" or not enough):
        rental.say("the machine is back, without a GPU: only its data can be fetched" if not enough else "it is back")
        if hello.job is not None and hello.job.phase != "running":
            known |= {"exited": True, "exit_code": hello.job.exit_code, "exit_reason": hello.job.reason}
        rental.record(
            State.FINISHED, "ready to collect", detail, job_finished=facts.job_finished or rental.now(), **known
        )
        return
    rental.say(f"its agent is ready: {', '.join(hello.gpus) or 'no GPU'}")
    rental.record(State.SENDING, "agent ready", detail, **known)
