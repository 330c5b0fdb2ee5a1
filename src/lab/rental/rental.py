"""One rental at work: its journal and facts, with the cloud, the agent, the clock and the person that it deals with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from lab.errors import StillBilling
from lab.rental import cost
from lab.rental.agent_contract import PORT, AgentUnreachable
from lab.rental.facts import ENDED, FIELDS, Facts, State, after, fold
from lab.rental.provider import NotFound, RateLimited, Unreachable
from lab.rental.reached import reached

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Sequence

    from lab.jobs import Job
    from lab.rental.agent_contract import Agent
    from lab.rental.clock import Clock
    from lab.rental.journal import Journal
    from lab.rental.options import RentalOptions
    from lab.rental.provider import Machine, Provider
    from lab.runs.directory import RunDirectory

T = TypeVar("T")

READ_TRIES = 5
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 8.0
LONGEST_RATE_WAIT_SECONDS = 120.0
HURRY_SECONDS = 60.0


class GiveUp(Exception):
    """What is under way shall end here, in order: the machine is stopped if it may hold results, deleted if not."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unwritable(StillBilling):
    """The journal cannot be written, so nothing more is done: what is not on disk must not happen."""

    def __init__(self, rental: Rental, error: OSError) -> None:
        machine = rental.facts.machine_id
        alive = f"Machine {machine} may be billing." if machine else "No machine is known to exist."
        super().__init__(
            f"{rental.journal.path} cannot be written: {error.strerror}. {alive}",
            f"Free space or permissions there, then run `lab rentals`. {rental.provider.console_url(machine)}",
        )


@dataclass
class Rental:
    """Everything that the states of one rental share. `record` is called before each act, never after it alone."""

    provider: Provider
    journal: Journal
    clock: Clock
    run: RunDirectory
    job: Job
    options: RentalOptions
    connect: Callable[[str, str], Agent]
    say: Callable[[str], None]
    random: random.Random
    owner: str
    token: str
    streams: int = 4
    """How many requests carry results at once."""
    interrupted: Callable[[], bool] = lambda: False
    changed: Callable[[Rental], None] = lambda rental: None
    """Called after each change of state, to keep the run directory's records up to date."""
    facts: Facts = field(default_factory=Facts)
    _anchor: tuple[float, float] = (0.0, 0.0)
    _entered: dict[tuple[State, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.facts = fold(self.journal.records())
        self._anchor = (self.clock.wall(), self.clock.monotonic())

    def record(self, state: State, event: str, detail: Mapping[str, object] | None = None, /, **data: object) -> None:
        """Write what is about to happen, or has just become known; returns once it is on the disk.

        `data` sets facts of the same name, `detail` is only for those who read the journal.
        """
        assert data.keys() <= FIELDS, data.keys() - FIELDS
        try:
            record = self.journal.append(self.facts.records + 1, state, event, data, detail or {})
        except OSError as error:
            raise Unwritable(self, error) from error
        before, self.facts = self.facts, after(self.facts, record)
        if self.facts.state is not before.state:
            self.changed(self)

    def note(self, event: str, detail: Mapping[str, object] | None = None, /, **data: object) -> None:
        """Write something that leaves the state as it is."""
        self.record(self.facts.state, event, detail, **data)

    def now(self) -> float:
        """Wall time, unless the wall clock was set back meanwhile: money is never counted too low."""
        wall, monotonic = self._anchor
        return max(self.clock.wall(), wall + self.clock.monotonic() - monotonic)

    def pause(self, seconds: float) -> None:
        """Wait while something is under way; a person's Ctrl-C and the cost ceiling end it."""
        self.clock.sleep(seconds)
        self.check()

    def check(self) -> None:
        """Raise `GiveUp` when a person wants to stop or the money is spent."""
        if self.interrupted():
            raise GiveUp("interrupted by a person")
        if self.facts.max_dollars and cost.spent(self.facts, self.now()) >= self.facts.max_dollars:
            raise GiveUp(f"the cost ceiling of ${self.facts.max_dollars:.2f} was reached")

    def read(self, call: Callable[[], T]) -> T:
        """Ask the cloud something harmless; ask again when there was no usable answer."""
        for attempt in range(READ_TRIES):
            try:
                return call()
            except RateLimited as limited:
                if attempt == READ_TRIES - 1 or limited.retry_after > LONGEST_RATE_WAIT_SECONDS:
                    raise Unreachable(limited.message, limited.request_id) from limited
                self.clock.sleep(limited.retry_after)
            except Unreachable:
                if attempt == READ_TRIES - 1:
                    raise
                self.clock.sleep(self.backoff(attempt))
        raise AssertionError("the last try returns or raises")

    def backoff(self, attempt: int) -> float:
        """A random wait, longer on average with each attempt, so that many controllers do not knock in step."""
        return self.random.uniform(0, min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2.0**attempt))

    def look(self, machine_id: str = "") -> Machine | None:
        """The machine (or another one) as the cloud sees it now, or None for a 404."""
        try:
            return self.read(lambda: self.provider.get(machine_id or self.facts.machine_id))
        except NotFound:
            return None

    def listing(self) -> Sequence[Machine]:
        """Every machine of the account, complete."""
        return self.read(self.provider.list_all)

    def agent(self) -> Agent:
        """The agent of the present machine."""
        machine_id = self.facts.machine_id
        return reached(
            lambda: self.provider.agent_url(machine_id, PORT), lambda address: self.connect(address, self.token)
        )

    def talk(self, call: Callable[[], T], seconds: float) -> T:
        """Ask the agent until it answers. Raises `GiveUp` when it has not within `seconds`."""
        until = self.clock.monotonic() + seconds
        attempt = 0
        while True:
            try:
                return call()
            except AgentUnreachable as error:
                if self.clock.monotonic() >= until:
                    raise GiveUp(f"the agent did not answer for {seconds:.0f} s: {error}") from error
            self.pause(1.0 + self.backoff(attempt))
            attempt += 1

    def time_left(self, state: State, seconds: float) -> float:
        """What is left of this command's time for a machine in one state, over all visits; Ctrl-C shortens it."""
        started = self._entered.setdefault((state, self.facts.machine_id), self.clock.monotonic())
        allowed = min(seconds, HURRY_SECONDS) if self.interrupted() else seconds
        return started + allowed - self.clock.monotonic()

    @property
    def ended(self) -> bool:
        """Whether nothing of this rental exists any more."""
        return self.facts.state in ENDED
