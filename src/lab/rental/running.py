"""Watching a job at work: one look at a time, each of which renews the machine's lease and counts the money."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.rental import cost
from lab.rental.absence import Absence
from lab.rental.agent_contract import AgentError, AgentRefused, AgentUnreachable, Cursor, JobReport, Poll
from lab.rental.facts import State
from lab.rental.leaving import gone, leave
from lab.rental.sending import MARGIN_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.rental.rental import Rental

ASK_CLOUD_SECONDS = 30.0
"""While the agent is silent the cloud is asked this often what the machine is doing."""
STOP_GRACE_SECONDS = 120.0
"""What the worker gets to finish its step and save."""
RESERVE_SECONDS = 300.0
RESERVE_FRACTION = 0.2
"""The job is asked to save while the ceiling still pays for that and for collecting: the smaller of both."""


@dataclass
class Silence:
    """What is remembered about an agent that does not answer, between two looks of one process."""

    since: float | None = None
    asked_cloud: float = -ASK_CLOUD_SECONDS
    absence: Absence | None = None
    reason: str = ""
    stop_asked: bool = False


def watch(rental: Rental, silence: Silence, cursors: Mapping[str, Cursor] | None) -> Poll | None:
    """RUNNING: look once. Leaves the state when the job or the machine has ended, or must."""
    try:
        poll = rental.agent().poll(cursors)
    except AgentRefused as error:
        silence.reason = f"the agent refuses: {error}"
        _silent(rental, silence)
        return None
    except AgentUnreachable as error:
        silence.reason = str(error)
        _silent(rental, silence)
        return None
    silence.since, silence.absence = None, None
    _judge(rental, silence, poll)
    return poll


def _judge(rental: Rental, silence: Silence, poll: Poll) -> None:
    facts = rental.facts
    if poll.boot_id != facts.boot_id:
        rental.note("the machine restarted", boot_id=poll.boot_id)
        rental.say("the machine restarted by itself")
    if poll.job is None or poll.job.request_id != facts.request_id:
        finish(rental, None, "the machine does not know the job any more")
    elif poll.job.phase != "running":
        finish(rental, poll.job.exit_code, _explained(poll.job))
    else:
        _enforce(rental, silence, poll.uptime_seconds, poll.job.seconds)


def _explained(report: JobReport) -> str:
    if report.phase == "interrupted":
        return report.reason or "the machine restarted while the job ran; it was not run again"
    return report.reason


def finish(rental: Rental, exit_code: int | None, reason: str) -> None:
    """No stage runs any more: what is on the machine now is final."""
    rental.record(
        State.FINISHED,
        "job ended",
        exited=True,
        exit_code=exit_code,
        exit_reason=reason,
        job_finished=rental.now(),
    )
    rental.say(f"the job ended with exit code {exit_code}" if exit_code is not None else f"the job ended: {reason}")


def elapsed(rental: Rental, uptime_seconds: float) -> float:
    """Seconds that the machine bills, by its own clock: neither a sleeping laptop nor a set clock changes them."""
    facts = rental.facts
    before = max(0.0, facts.ready - facts.billing_since)
    return facts.billed_seconds + before + uptime_seconds


def _enforce(rental: Rental, silence: Silence, uptime_seconds: float, job_seconds: float) -> None:
    """Ask the job to save when its time or its money is nearly over."""
    facts = rental.facts
    rate = facts.dollars_per_hour or 0.0
    left = facts.max_dollars - facts.spent_before - rate * elapsed(rental, uptime_seconds) / cost.HOUR
    reserve = min(rate * RESERVE_SECONDS / cost.HOUR, RESERVE_FRACTION * facts.max_dollars)
    if facts.max_dollars and left <= 0:
        leave(rental, f"the cost ceiling of ${facts.max_dollars:.2f} was reached")
    elif facts.max_dollars and left <= reserve:
        ask_to_save(rental, silence, f"the cost ceiling of ${facts.max_dollars:.2f} is near")
    elif job_seconds > facts.seconds + MARGIN_SECONDS:
        ask_to_save(rental, silence, f"the limit of {facts.seconds:.0f} s was reached")


def ask_to_save(rental: Rental, silence: Silence, why: str) -> None:
    """Ask the worker, once a process, to finish its step, save and exit."""
    if silence.stop_asked:
        return
    rental.note("asked the job to save and end", {"why": why})
    rental.say(f"{why}: asking the job to save and end")
    try:
        rental.agent().stop_job(STOP_GRACE_SECONDS)
    except AgentError as error:
        rental.say(f"the agent does not answer: {error}")
        return
    silence.stop_asked = True


def _silent(rental: Rental, silence: Silence) -> None:
    """A silent agent ends no run: the cloud says whether the machine lives, and the limits say how long we wait."""
    facts, now = rental.facts, rental.clock.monotonic()
    silence.since = now if silence.since is None else silence.since
    if now - silence.asked_cloud >= ASK_CLOUD_SECONDS:
        silence.asked_cloud = now
        _ask_cloud(rental, silence)
    if rental.facts.state is not State.RUNNING:
        return
    if facts.max_dollars and cost.spent(facts, rental.now()) >= facts.max_dollars:
        leave(rental, f"the cost ceiling of ${facts.max_dollars:.2f} was reached while the agent was silent")
    elif rental.now() - facts.since > facts.seconds + 2 * MARGIN_SECONDS:
        leave(rental, f"the agent is silent and the limit of {facts.seconds:.0f} s is over: {silence.reason}")


def _ask_cloud(rental: Rental, silence: Silence) -> None:
    absence = silence.absence or Absence(rental, rental.facts.machine_id, not_found=3, unlisted=2)
    silence.absence = absence
    sight = absence.observe()
    if absence.proved:
        gone(rental, "the cloud knows the machine no more")
    elif sight == "alive" and absence.last is not None and absence.last.status == "stopped":
        found_stopped(rental, absence.last.status_text)
    elif sight == "alive" and absence.last is not None and absence.last.status == "failed":
        leave(rental, f"the machine failed: the cloud calls it {absence.last.status_text}")


def found_stopped(rental: Rental, word: str) -> None:
    """The machine was stopped by its own lease or deadline, or by somebody: its disk is kept."""
    facts, now = rental.facts, rental.now()
    rental.record(
        State.STOPPED,
        "found stopped",
        reason=f"it was found stopped (the cloud calls it {word})",
        billed_seconds=cost.billed_seconds(facts, now),
        billing_since=0.0,
    )
    rental.say(f"machine {facts.machine_id} was found stopped; its disk is kept")


def silence_text(silence: Silence, now: float) -> str:
    """What a person is told while the agent does not answer."""
    if silence.since is None:
        return ""
    return f"no answer for {now - silence.since:.0f} s: {silence.reason}"
