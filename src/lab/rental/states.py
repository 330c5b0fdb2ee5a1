"""A rental's state in the words of every backend: where the job is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.contracts import JobState
from lab.rental.facts import BEFORE_THE_JOB, Facts, State

if TYPE_CHECKING:
    from lab.contracts.backend import JobPhase

ON_ITS_WAY = BEFORE_THE_JOB | {State.LAUNCHING, State.STARTING}


def job_state(facts: Facts, stage: str | None, silent: str) -> JobState:
    """Where the job is; `lost` when no exit record will ever come."""
    if facts.state is State.RUNNING:
        return JobState("running", stage, reason=silent)
    if facts.exited and facts.exit_code is not None:
        return JobState("finished", stage, facts.exit_code, facts.exit_reason)
    if facts.state in ON_ITS_WAY:
        return JobState("waiting", reason=str(facts.state))
    return JobState("lost", stage, reason=lost_reason(facts))


def lost_reason(facts: Facts) -> str:
    """Why there is no exit record."""
    phase: JobPhase = "lost"
    reason = facts.exit_reason or facts.attention or facts.reason or phase
    kept = f"; its machine is stopped and keeps its disk: lab rentals collect RUN ({facts.machine_id})"
    return reason + kept if facts.state is State.STOPPED and facts.holds_something else reason
