"""The whole backend of any cloud: given a `Provider`, it rents, watches, collects, deletes and proves the deletion."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from lab.contracts import JobState, LogLine, Quote
from lab.errors import AskedToStop, Interrupted, LabError
from lab.rental import archive, lifecycle, planning, reconciling, running, starting, survey
from lab.rental.attention import ending_command, named, still_billing
from lab.rental.facts import State
from lab.rental.journal import Held
from lab.rental.opening import Rentals
from lab.rental.signals import Signals
from lab.runs import logs, records

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.contracts import Receipt, Resource
    from lab.jobs import Job
    from lab.rental.rental import Rental
    from lab.runs.directory import RunDirectory

SIGTERM = 15


class RentedBackend(Rentals):
    """Each call takes the rental's lock, folds its journal, leaves both in order: any process may make the next."""

    def quote(self, job: Job) -> Quote:
        """Say what would be tried, and the most that it can cost; creates nothing."""
        offered = planning.candidates(self.provider, job, self.options)
        return Quote(
            f"{offered[0].gpu} on {self.provider.name}, up to {job.seconds / 3600:g} h",
            dollars_per_hour=offered[0].dollars_per_hour,
            max_dollars=planning.ceiling(job, self.options, offered),
            candidates=tuple(asdict(one) for one in offered),
        )

    def submit(self, job: Job, run: RunDirectory) -> Receipt:
        """Rent a machine and start the job on it. Whatever goes wrong, no machine is left that nobody knows of."""
        journal = self.journal(run.id)
        journal.create()
        with journal.lock():
            rental = self.of(journal, run, job)
            if rental.facts.records:
                reconciling.reconcile(rental)
            starting.plan(rental)
            archive.publish(rental)
            self._drive(rental, until=frozenset({State.RUNNING}))
        return self.receipt(rental)

    def state(self, receipt: Receipt) -> JobState:
        """Look at the job, no more often than makes sense: this renews the machine's lease and enforces the limits."""
        if not self.looks.wanted(receipt.run_id):
            return self.looks.latest(receipt.run_id)
        try:
            with self.opened(receipt.run_id) as rental:
                self.looks.look(rental)
                return self.looks.judge(rental)
        except Held as error:
            return JobState("running", reason=f"process {error.holder} works on it")

    def records(self, receipt: Receipt, run: RunDirectory) -> None:
        """Nothing more to do: each look brings home what records, logs and checkpoints have grown by."""

    def logs(self, receipt: Receipt, run: RunDirectory) -> Iterator[LogLine]:
        """Yield the log lines that are home, in the order in which the stages started."""
        started = [str(line["stage"]) for line in records.read_lines(run.stages) if line.get("event") == "started"]
        for stage in dict.fromkeys(started):
            yield from (LogLine(stage, line) for line in logs.read(run.logs / f"{stage}.log"))

    def fetch(self, receipt: Receipt, run: RunDirectory) -> Sequence[str]:
        """Bring every result home, verified, and give the machine back.

        It is deleted with proof, or stopped when it shall be kept. One whose results cannot be had is stopped too.
        """
        with self.opened(receipt.run_id) as rental:
            self.looks.look(rental)
            if rental.facts.state in (State.FINISHED, State.VERIFIED):
                self._drive(rental)
            facts = rental.facts
        if facts.verified or facts.state is State.NO_MACHINE or not facts.accepted:
            return ()
        return facts.uncollected or (f"all results: {facts.reason or facts.attention or facts.state}",)

    def stop(self, receipt: Receipt) -> None:
        """Ask the job to save and end; its machine is then stopped and keeps its disk. Without a job, stop at once."""
        with self.opened(receipt.run_id) as rental:
            if rental.facts.state is State.RUNNING:
                rental.note("a person asked to stop", keep=True)
                running.ask_to_save(rental, self.looks.silence(rental.run.id), "a person asked to stop")
            else:
                starting.halt(rental)
                self._drive(rental)

    def halt(self, receipt: Receipt) -> None:
        """Stop the machine now, giving a running job a moment to save; the disk is kept."""
        with self.opened(receipt.run_id) as rental:
            starting.halt(rental)
            self._drive(rental)

    def start(self, receipt: Receipt) -> None:
        """Start a stopped machine and run the job on it again, from its checkpoint."""
        self._again(receipt, "run", State.RUNNING)

    def collect(self, receipt: Receipt) -> Sequence[str]:
        """Bring the results of a stopped machine home: it is started for that, works no more, and is then deleted."""
        with self.opened(receipt.run_id) as rental:
            run, stopped = rental.run, rental.facts.state is State.STOPPED and not rental.facts.verified
            if rental.facts.state is State.FINISHED:
                rental.note("a person asked to collect", **starting.allowance(rental, 0.0))
        if stopped:
            self._again(receipt, "collect", State.FINISHED)
        return self.fetch(receipt, run)

    def delete(self, receipt: Receipt) -> None:
        """Delete the machine and prove it, or stop it when it shall be kept. Refused while results are only there."""
        with self.opened(receipt.run_id) as rental:
            starting.refuse_to_lose_results(rental)
            starting.end(rental, by_user=False)
            self._drive(rental)

    def terminate(self, receipt: Receipt) -> None:
        """Delete the machine and prove it, whatever is on it: a person's explicit wish."""
        with self.opened(receipt.run_id) as rental:
            starting.end(rental, by_user=True)
            self._drive(rental)

    def reconcile(self, receipt: Receipt) -> JobState:
        """Find out what became of a rental whose controller vanished, and finish what was begun."""
        with self.opened(receipt.run_id) as rental:
            self.looks.look(rental)
            return self.looks.judge(rental)

    def owned(self) -> Sequence[Resource]:
        """Everything in the cloud that this project made, and every rental that is not over, orphans first."""
        return survey.owned(self)

    def _drive(self, rental: Rental, until: frozenset[State] = frozenset(), raising: bool = True) -> None:
        """Go on under the guard of signals, then say by an error what a person must know."""
        signals = Signals(
            first=lambda: self.say(f"interrupted: ending {named(rental)} in order; once more to leave at once"),
            second=lambda: self.say(
                f"left {named(rental)}. End it with: {ending_command(rental.facts, rental.run.id)}"
            ),
        )
        with signals:
            rental.interrupted = lambda: signals.caught is not None
            try:
                lifecycle.drive(rental, until)
            finally:
                archive.publish(rental)
        if rental.facts.state is State.ATTENTION:
            raise still_billing(rental)
        if signals.caught is not None:
            kind = AskedToStop if signals.caught == SIGTERM else Interrupted
            raise kind(f"{rental.run.id}: interrupted; its machine: {rental.facts.state}. {rental.facts.reason}")
        if raising and until and rental.facts.state not in until:
            raise LabError(f"{rental.run.id}: {rental.facts.reason}", starting.advice(rental))

    def _again(self, receipt: Receipt, purpose: str, goal: State) -> None:
        with self.opened(receipt.run_id) as rental:
            starting.again(rental, purpose)
            self._drive(rental, until=frozenset({goal, State.FINISHED}))
