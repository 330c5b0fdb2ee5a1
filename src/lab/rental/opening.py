"""The rentals of one cloud: each found by its run and opened alone, its journal folded and held against the cloud."""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from lab.contracts import Receipt
from lab.errors import LabError
from lab.rental import archive, reconciling
from lab.rental.agent_client import connect
from lab.rental.clock import SystemClock
from lab.rental.facts import Facts, fold
from lab.rental.journal import Journal
from lab.rental.looking import Looks
from lab.rental.naming import owner_of
from lab.rental.options import RentalOptions
from lab.rental.rental import Rental
from lab.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab.jobs import Job
    from lab.rental.agent_contract import Agent
    from lab.rental.clock import Clock
    from lab.rental.provider import Provider
    from lab.runs.directory import RunDirectory


class Rentals:
    """What finds and opens them; what may be done to one is the backend's affair."""

    def __init__(
        self,
        provider: Provider,
        options: RentalOptions | None = None,
        *,
        store: Path | None = None,
        clock: Clock | None = None,
        connect: Callable[[str, str], Agent] = connect,
        say: Callable[[str], None] = lambda text: None,
        sync: Callable[[int], None] = os.fsync,
        streams: int = 4,
        seed: int | None = None,
    ) -> None:
        self.provider = provider
        self.options = options or RentalOptions()
        self.clock = clock or SystemClock()
        self.say = say
        self._store = store
        self._sync = sync
        self._streams = streams
        self._random = random.Random(seed)
        self.looks = Looks(self.clock, connect, lambda text: self.say(text))

    @cached_property
    def store(self) -> Path:
        """Where journals and tokens are kept."""
        return self._store or read_settings().store_folder

    def receipt(self, rental: Rental) -> Receipt:
        """What finds the rental again."""
        return Receipt(self.provider.name, rental.run.id, rental.facts.machine_id or rental.run.id)

    def journal(self, run_id: str) -> Journal:
        """The journal of one run's rental."""
        return Journal(archive.folder(self.store, run_id), self.clock, self._sync)

    @contextmanager
    def opened(self, run_id: str, going_on: bool = False, seconds: float | None = None) -> Iterator[Rental]:
        """The rental of a run, alone, reconciled; its resource and cost records are brought up to date at the end."""
        journal = self.journal(run_id)
        if not journal.exists():
            raise LabError(f"{run_id} has no rental in {self.store}.", "See them all: lab rentals")
        with journal.lock() if seconds is None else journal.lock(seconds):
            run = archive.run_of(journal)
            rental = self.of(journal, run, archive.job_of(run))
            before = rental.facts
            reconciling.reconcile(rental, going_on)
            try:
                yield rental
            finally:
                if rental.facts != before or self.looks.cost_is_due(rental):
                    archive.publish(rental)

    def of(self, journal: Journal, run: RunDirectory, job: Job) -> Rental:
        """The rental that a journal tells of, as it stands on disk."""
        rental = Rental(
            self.provider, journal, self.clock, run, job, self.options, self.looks.agent, self.say, self._random,
            owner_of(self.store), archive.token(journal), self._streams,
        )  # fmt: skip
        rental.changed = archive.publish
        return rental

    def glance(self, rental: Rental) -> None:
        """Look whether a running job still runs and may, without bringing anything home."""
        self.looks.glance(rental)

    def close(self) -> None:
        """Give up the connections to machines; the rentals themselves go on."""
        self.looks.close()

    def facts(self, run_id: str) -> Facts:
        """What the journal says, without looking at anything else."""
        return fold(self.journal(run_id).records())
