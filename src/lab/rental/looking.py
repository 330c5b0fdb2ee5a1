"""Looks at jobs at work, and what one process remembers between two of them: losing it loses nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.contracts import JobState
from lab.rental import homecoming, lifecycle, running
from lab.rental.facts import State
from lab.rental.states import job_state

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.rental.agent_contract import Agent
    from lab.rental.clock import Clock
    from lab.rental.rental import Rental

LOOK_SECONDS = 3.0
COST_SECONDS = 60.0


@dataclass
class _Seen:
    """One rental, as far as this process looked."""

    silence: running.Silence = field(default_factory=running.Silence)
    home: homecoming.Homecoming = field(default_factory=homecoming.Homecoming)
    stage: str | None = None
    notices: set[str] = field(default_factory=set)
    next_look: float = float("-inf")
    next_cost: float = float("-inf")
    job: JobState = field(default_factory=lambda: JobState("waiting"))


class Looks:
    """Every look renews the machine's lease, enforces the limits, and brings home what has grown."""

    def __init__(self, clock: Clock, connect: Callable[[str, str], Agent], say: Callable[[str], None]) -> None:
        self._clock, self._connect, self._say = clock, connect, say
        self._memory: dict[str, _Seen] = {}
        self._agents: dict[tuple[str, str], Agent] = {}

    def wanted(self, run_id: str) -> bool:
        """Whether it is time to look again; whoever asks is taken to look now."""
        known = self._seen(run_id)
        wanted = self._clock.monotonic() >= known.next_look
        if wanted:
            known.next_look = self._clock.monotonic() + LOOK_SECONDS
        return wanted

    def latest(self, run_id: str) -> JobState:
        """How the job stood at the last look."""
        return self._seen(run_id).job

    def look(self, rental: Rental) -> None:
        """Look at a running job, and go on when it has ended."""
        if rental.facts.state is State.RUNNING:
            lifecycle.guarded(rental, self._observe)
            lifecycle.drive(rental, until=frozenset({State.FINISHED}))

    def glance(self, rental: Rental) -> None:
        """Look whether a running job still runs and may, without bringing anything home."""
        if rental.facts.state is State.RUNNING:
            silence = self.silence(rental.run.id)
            lifecycle.guarded(rental, lambda one: running.watch(one, silence, None))
            lifecycle.drive(rental, until=frozenset({State.FINISHED}))

    def judge(self, rental: Rental) -> JobState:
        """How the job stands by the journal and by what was seen of it."""
        known = self._seen(rental.run.id)
        silent = running.silence_text(known.silence, self._clock.monotonic())
        known.job = job_state(rental.facts, known.stage, silent)
        return known.job

    def cost_is_due(self, rental: Rental) -> bool:
        """Whether a running rental's cost record is old enough to be written anew."""
        known = self._seen(rental.run.id)
        due = rental.facts.state is State.RUNNING and self._clock.monotonic() >= known.next_cost
        if due:
            known.next_cost = self._clock.monotonic() + COST_SECONDS
        return due

    def silence(self, run_id: str) -> running.Silence:
        """What is remembered of an agent that does not answer."""
        return self._seen(run_id).silence

    def agent(self, url: str, token: str) -> Agent:
        """One connection to each machine, kept between looks."""
        if (url, token) not in self._agents:
            self._agents[url, token] = self._connect(url, token)
        return self._agents[url, token]

    def close(self) -> None:
        """Give up the connections; the rentals themselves go on."""
        for agent in self._agents.values():
            agent.close()
        self._agents.clear()

    def _observe(self, rental: Rental) -> None:
        known = self._seen(rental.run.id)
        poll = running.watch(rental, known.silence, homecoming.cursors(rental.run))
        if poll is None:
            return
        known.stage = poll.job.stage if poll.job else None
        known.home.take(rental, rental.agent(), poll)
        for notice in poll.notices:
            if notice not in known.notices:
                known.notices.add(notice)
                self._say(notice)

    def _seen(self, run_id: str) -> _Seen:
        return self._memory.setdefault(run_id, _Seen())
