"""Bringing every result home and verifying it: only after this may a machine be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental import transfer
from lab.rental.agent_contract import AgentError, AgentRefused, Manifest
from lab.rental.facts import State
from lab.rental.leaving import leave
from lab.rental.rental import GiveUp
from lab.rental.sending import ANSWER_SECONDS, idle_seconds, set_limits

if TYPE_CHECKING:
    from lab.rental.agent_contract import Agent
    from lab.rental.rental import Rental

HASHING_SECONDS = 1800.0
HASHING_POLL_SECONDS = 2.0


def collect(rental: Rental) -> None:
    """FINISHED: fetch the frozen list of results and each of them; what cannot be had keeps the machine's disk."""
    agent = rental.agent()
    try:
        set_limits(rental, agent, idle_seconds(rental))
        manifest = frozen(rental, agent)
    except AgentRefused as error:
        leave(rental, f"the machine refused to list its results: {error}")
        return
    collected = transfer.download(rental, agent, manifest)
    if collected.failures:
        failed = [f"{path}: {why}" for path, why in collected.failures]
        rental.note("results are missing", uncollected=failed)
        leave(rental, f"{len(failed)} results could not be brought home: {failed[0]}")
        return
    detail = {
        "files": collected.files,
        "bytes": sum(file.size for file in manifest.files),
        "skipped": [[item.path, item.why] for item in (*manifest.skipped, *collected.skipped)],
    }
    rental.record(
        State.VERIFIED, "every result is home", detail, verified=True, uncollected=[], collected=rental.now()
    )  # fmt: skip
    for item in (*manifest.skipped, *collected.skipped):
        rental.say(f"left behind: {item.path}: {item.why}")
    rental.say(f"{collected.files} files are home, each with the hash that the machine gave")


def frozen(rental: Rental, agent: Agent) -> Manifest:
    """The list of results once nothing writes any more; the machine hashes them meanwhile."""
    until = rental.clock.monotonic() + HASHING_SECONDS
    fresh = True
    while True:
        manifest = rental.talk(lambda first=fresh: agent.manifest(rental.job.results, first), ANSWER_SECONDS)  # type: ignore[misc]
        if manifest is not None:
            return manifest
        fresh = False
        if rental.clock.monotonic() > until:
            raise GiveUp("the machine did not finish hashing its results")
        rental.pause(HASHING_POLL_SECONDS)


def part(rental: Rental) -> None:
    """VERIFIED: tell the machine, then delete it, or stop it when it shall be kept."""
    try:
        rental.agent().acknowledge()
    except AgentError as error:
        rental.say(f"the machine was not told that all is home: {error}")
    if rental.facts.keep:
        rental.record(State.STOPPING, "stop", reason="it shall be kept")
    else:
        rental.record(State.DELETING, "delete", reason="every result is home", then="end")
