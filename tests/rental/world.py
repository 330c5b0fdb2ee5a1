"""A project folder, a fake cloud and fresh controllers over both: what a person has before and after a crash."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.contracts import JobState, Receipt
from lab.errors import LabError
from lab.jobs import Job, Needs, Stage
from lab.rental import RentalOptions, RentedBackend
from lab.rental.facts import State
from lab.runs.directory import RunDirectory
from rental.fake_cloud import FakeCloud
from rental.virtual import Killed, VirtualClock

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LOOK_SECONDS = 10.0
LONGEST_SECONDS = 40_000.0
AT_REST = {State.DELETED, State.LOST, State.NO_MACHINE, State.STOPPED, State.ATTENTION}


class World:
    """`backend()` is a new process: it knows only what is on disk."""

    def __init__(self, folder: Path, run_id: str = "smoke-20261201-0915-7f3a", **options: Any) -> None:
        self.clock = VirtualClock()
        self.cloud = FakeCloud(self.clock)
        self.store = folder / ".lab"
        self.run = RunDirectory(folder / ".runs" / run_id)
        self.run.logs.mkdir(parents=True, exist_ok=True)
        bundle = b"the bundle" * 100
        self.run.bundle.write_bytes(bundle)
        self.run.config.write_text('{"schema": 1}')
        stages = (Stage("train", ("{python}", "-m", "lab.worker", "{run}")),)
        self.job = Job(
            run_id, stages, hashlib.sha256(bundle).hexdigest(), Needs(gpu="NVIDIA H100", image="image@sha256:1"),
            seconds=3600.0,
        )  # fmt: skip
        self.write_job()
        self.options = RentalOptions(**options)
        self.said: list[str] = []
        self.synced = 0
        self.kill_after_sync: int | None = None
        """The controller dies once so many writes have reached the disk."""
        self.error: LabError | None = None
        self.hindered = False
        """Whether the cloud did not do as it was asked, so that the bill is not the controller's fault."""

    def write_job(self, **changes: Any) -> None:
        self.job = replace(self.job, **changes)
        self.run.job.write_text(json.dumps(self.job.record()))

    def backend(self, **given: Any) -> RentedBackend:
        return RentedBackend(
            self.cloud, self.options, store=self.store, clock=self.clock, connect=self.cloud.connect,
            say=self.said.append, sync=given.pop("sync", self._sync), streams=1, seed=7, **given,
        )  # fmt: skip

    def _sync(self, handle: int) -> None:
        self.synced += 1
        if self.synced == self.kill_after_sync:
            raise Killed

    @property
    def receipt(self) -> Receipt:
        return Receipt("fake", self.run.id, self.run.id)

    @property
    def facts(self) -> Any:
        return self.backend().facts(self.run.id)

    @property
    def state(self) -> State:
        return self.facts.state

    def events(self) -> list[str]:
        return [record["event"] for record in self.backend().journal(self.run.id).records()]

    def submit(self, backend: RentedBackend | None = None) -> Receipt:
        return (backend or self.backend()).submit(self.job, self.run)

    def follow(self, backend: RentedBackend | None = None) -> tuple[JobState, Sequence[str]]:
        """What `lab run` does after submitting."""
        backend = backend or self.backend()
        until = self.clock.seconds + LONGEST_SECONDS
        while (state := backend.state(self.receipt)).phase in ("waiting", "running"):
            assert self.clock.seconds < until, "the run never ends"
            self.clock.sleep(LOOK_SECONDS)
        return state, backend.fetch(self.receipt, self.run)

    def go(self) -> JobState | None:
        """The whole of `lab run`; errors that a person would read are kept in `error`."""
        backend = self.backend()
        try:
            self.submit(backend)
            state, self.missing = self.follow(backend)
        except LabError as error:
            self.error = error
            return None
        return state

    def attempt(self, act: Any) -> LabError | None:
        """One command; what a person would read is kept in `error`."""
        try:
            act()
        except LabError as error:
            self.error = error
            return error
        return None

    def finish(self, backend: RentedBackend | None = None) -> None:
        """Follow the run to its end, as `lab rentals monitor` does."""
        self.attempt(lambda: self.follow(backend))

    def any_command(self) -> None:
        """A later `lab rentals`: whatever it meets, it must not fail."""
        with contextlib.suppress(LabError):
            self.backend().owned()

    def settle(self) -> None:
        """Commands as a person would give them until nothing goes on any more."""
        for _ in range(6):
            backend = self.backend()
            if not backend.journal(self.run.id).exists() or self.state in AT_REST - {State.ATTENTION}:
                return
            with contextlib.suppress(LabError):
                self.follow(backend)
            self.clock.sleep(400)
