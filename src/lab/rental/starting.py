"""How a person's wish becomes a state: plan, end, halt, start again; each refused when it would lose something."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lab.errors import LabError, StillBilling, UsageError
from lab.rental import cost, planning
from lab.rental.facts import ENDED, State

if TYPE_CHECKING:
    from lab.rental.rental import Rental


def plan(rental: Rental) -> None:
    """Write down what is allowed before anything is asked; a stopped machine of this run is started again instead."""
    facts = rental.facts
    if facts.state is State.STOPPED:
        again(rental, "run")
        return
    if facts.records and facts.state not in ENDED:
        raise LabError(
            f"{rental.run.id} has a machine already: {facts.state}.", f"See: lab rentals monitor {rental.run.id}"
        )
    spent = cost.spent(facts, rental.now())
    offered = planning.candidates(rental.provider, rental.job, rental.options)
    rental.record(
        State.PLANNED,
        "planned",
        provider=rental.provider.name,
        account=rental.provider.account(),
        run_path=str(rental.run.path),
        planned=rental.clock.wall(),
        max_dollars_per_hour=planning.price_cap(rental.options, offered),
        max_dollars=planning.ceiling(rental.job, rental.options, offered, spent),
        spent_before=spent,
        seconds=rental.job.seconds,
        ready_seconds=rental.options.ready_minutes * 60,
        keep=rental.options.keep,
        volume_gb=planning.volume_gb(rental.job),
        network_volume=rental.job.needs.network_volume,
        candidates=[one.record() for one in offered],
        attempt=0,
        **FRESH,
    )


FRESH: dict[str, object] = {
    "machine_id": "", "job_attempt": 0, "asked": False, "accepted": False, "verified": False, "exited": False,
    "exit_code": None,
    "exit_reason": "", "uncollected": [], "by_user": False, "already_gone": False, "reason": "", "attention": "",
    "then": "end", "purpose": "run", "ready": 0.0, "created": 0.0, "billing_since": 0.0, "billed_seconds": 0.0,
    "ended": 0.0, "job_finished": 0.0, "collected": 0.0, "boot_id": "", "stale_boot_id": "", "dollars_per_hour": None,
}  # fmt: skip
"""What a second rental of the same run must not inherit from the first."""


def again(rental: Rental, purpose: str) -> None:
    """STOPPED: start the machine, to run the job again from its checkpoint or only to fetch what is on it."""
    if rental.facts.state is not State.STOPPED:
        raise UsageError(f"{rental.run.id}: its machine is not stopped but: {rental.facts.state}.")
    wanted: Literal["run", "collect"] = "collect" if purpose == "collect" else "run"
    known: dict[str, object] = {"purpose": wanted, "reason": "", "attention": ""}
    known |= allowance(rental, rental.facts.seconds if wanted == "run" else 0.0)
    if wanted == "run":
        known |= {"exited": False, "exit_code": None, "exit_reason": "", "verified": False, "keep": rental.options.keep}
    rental.record(State.STARTING, "start", **known)


def allowance(rental: Rental, seconds: float) -> dict[str, object]:
    """What a person's explicit wish may cost beyond what was agreed at the beginning; said before it is spent."""
    facts = rental.facts
    needed = cost.most(facts.dollars_per_hour or 0.0, seconds, facts.ready_seconds)
    more = cost.spent(facts, rental.now()) + needed
    if more <= facts.max_dollars:
        return {}
    rental.say(f"the ceiling of ${facts.max_dollars:.2f} is raised to ${more:.2f} for what was asked for now")
    return {"max_dollars": more}


def halt(rental: Rental) -> None:
    """Stop the machine and keep its disk; without anything on it, delete it."""
    facts = rental.facts
    if facts.state in ENDED or facts.state in (State.STOPPED, State.STOPPING, State.DELETING, State.CONFIRMING):
        return
    if facts.verified or facts.holds_something:
        rental.record(State.STOPPING, "stop", reason="a person asked to stop it")
    else:
        end(rental, by_user=True)


def end(rental: Rental, by_user: bool) -> None:
    """Delete the machine, or stop it when it shall be kept and nobody asked otherwise."""
    facts = rental.facts
    if facts.state in ENDED or facts.state in (State.DELETING, State.CONFIRMING):
        return
    if not facts.machine_id:
        rental.record(State.NO_MACHINE, "given up", reason="a person gave it up")
    elif facts.state is State.VERIFIED and not by_user:
        return  # the state itself knows whether the machine is kept
    else:
        reason = "a person asked for it" if by_user else "every result is home"
        rental.record(State.DELETING, "delete", reason=reason, then="end", by_user=by_user)


def refuse_to_lose_results(rental: Rental) -> None:
    """Raise when the machine may hold what exists nowhere else."""
    facts = rental.facts
    if facts.holds_something and facts.state not in ENDED:
        rate = f"${facts.dollars_per_hour or 0:.2f}/h" if facts.state is not State.STOPPED else "its disk's price"
        raise StillBilling(
            f"{rental.run.id}: results are only on machine {facts.machine_id} ({rate}), so it was not deleted.",
            f"Fetch them: lab rentals collect {rental.run.id}. Give them up: lab rentals terminate {rental.run.id}",
        )


def advice(rental: Rental) -> str:
    """What to do about a rental that came to an end before its job did."""
    facts = rental.facts
    if facts.state is State.STOPPED:
        return f"Its disk is kept: lab rentals collect {rental.run.id}, or lab rentals terminate {rental.run.id}"
    if facts.state is State.LOST:
        return "What was not home is lost; the run directory has what was."
    gpus = ", ".join(dict.fromkeys(one.gpu for one in facts.candidates))
    return f"No machine is left. Asked for: {gpus}. Try later, or with --set environment.gpu=NAME."
