"""Sending the bundle and starting the job: both are asked for under an id, so asking twice is the same as once."""

from __future__ import annotations

import os
import secrets
from typing import TYPE_CHECKING

from lab.jobs import CODE, PYTHON, RUN, STORE
from lab.rental import cost, earlier, requirements, transfer
from lab.rental.agent_contract import AgentRefused, JobReport, JobRequest
from lab.rental.facts import State
from lab.rental.leaving import leave
from lab.rental.rental import GiveUp
from lab.runs import records

if TYPE_CHECKING:
    from lab.rental.agent_contract import Agent
    from lab.rental.rental import Rental

SEND_SECONDS = 1800.0
ANSWER_SECONDS = 300.0
MARGIN_SECONDS = 300.0
"""The machine's own limit of time lies behind the controller's, so that it ends only what nobody else ended."""


def send(rental: Rental) -> None:
    """SENDING: upload what is missing of the bundle, then write down the job's id."""
    agent = rental.agent()
    try:
        set_limits(rental, agent, idle_seconds(rental))
        transfer.upload(rental, agent, rental.run.bundle, rental.job.bundle_sha256, SEND_SECONDS)
        if rental.job.attempt > 1 and not rental.facts.job_attempt:
            earlier.send(rental, agent)
    except AgentRefused as error:
        leave(rental, f"the machine refused the bundle: {error}")
        return
    rental.check()
    rental.record(
        State.LAUNCHING,
        "start the job",
        asked=True,
        then="end",
        request_id=secrets.token_hex(8),
        job_attempt=rental.facts.job_attempt + 1,
    )


def launch(rental: Rental) -> None:
    """LAUNCHING: hand over the variables and start the job; the same id is the same job."""
    agent = rental.agent()
    try:
        set_limits(rental, agent, running_seconds(rental))
        report = _started(rental, agent)
    except AgentRefused as error:
        leave(rental, f"the machine refused the job: {error}")
        return
    rental.record(State.RUNNING, "job accepted", accepted=True, exited=False, exit_code=None, exit_reason="")
    rental.say(f"the job runs on {rental.facts.machine_id} (attempt {rental.facts.job_attempt})")
    if report.request_id != rental.facts.request_id:
        raise GiveUp(f"the machine works on another job ({report.request_id})")


def _started(rental: Rental, agent: Agent) -> JobReport:
    request = job_request(rental)
    for _ in range(3):
        rental.talk(lambda: agent.variables(forwarded(rental)), ANSWER_SECONDS)
        try:
            return rental.talk(lambda: agent.start(request), ANSWER_SECONDS)
        except AgentRefused as error:
            if error.code != "variables":
                raise
    raise GiveUp("the machine restarts too often to keep the forwarded variables")


def job_request(rental: Rental) -> JobRequest:
    """The job as it travels: the plan with its placeholders, what to install, and the resolved experiment."""
    job, run = rental.job, rental.run
    same = {placeholder: placeholder for placeholder in (PYTHON, RUN, CODE, STORE)}
    plan = job.stage_plan(same, records=f"{RUN}/{run.stages.name}", logs=f"{RUN}/{run.logs.name}")
    needed = requirements.needed(job, (records.read_json(run.provenance) or {}).get("plugins") or ())
    files = {path.name: path.read_text(encoding="utf-8") for path in (run.config, run.provenance) if path.is_file()}
    return JobRequest(rental.facts.request_id, job.bundle_sha256, plan, needed, files)


def forwarded(rental: Rental) -> dict[str, str]:
    """The values of the variables that the job names, from this process's environment; they are never written down."""
    return {name: os.environ[name] for name in rental.job.forwarded if name in os.environ}


def set_limits(rental: Rental, agent: Agent, lease_seconds: float) -> None:
    """Tell the machine how long it may live without us, and by when it must have stopped itself: time and money."""
    facts = rental.facts
    allowed = facts.seconds + cost.COLLECT_SECONDS + MARGIN_SECONDS
    if facts.max_dollars:
        allowed = min(allowed, cost.seconds_left(facts, rental.now()))
    rental.talk(lambda: agent.limits(lease_seconds, max(0.0, allowed)), ANSWER_SECONDS)


def idle_seconds(rental: Rental) -> float:
    """The lease of a machine that does no work."""
    return rental.options.lease_minutes * 60


def running_seconds(rental: Rental) -> float:
    """The lease while the job runs: by default as long as the job may take."""
    minutes = rental.options.running_lease_minutes
    return minutes * 60 if minutes is not None else max(idle_seconds(rental), rental.facts.seconds + MARGIN_SECONDS)
