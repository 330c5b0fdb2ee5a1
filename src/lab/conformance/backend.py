"""Whether a backend executes jobs as its contract says, and may be asked everything but `submit` twice."""

from __future__ import annotations

import contextlib
import hashlib
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from lab.conformance import require
from lab.contracts import JobState, LogLine, Quote, Receipt
from lab.jobs import PYTHON, RUN, Job, Needs, Stage, archive, stages
from lab.runs import records
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.contracts import Backend

POLL_SECONDS = 0.05
JOB_SECONDS = 3600.0
"""No job is ended by its own limit, by whichever clock its backend lives."""
WRITES = "import pathlib, sys; print('hello'); pathlib.Path(sys.argv[1], 'result.txt').write_text('done')"
FAILS = "print('about to fail'); raise SystemExit(3)"
WAITS = """
import pathlib, signal, sys, time
def stop(*_):
    pathlib.Path(sys.argv[1], "saved.txt").write_text("saved")
    raise SystemExit(143)
signal.signal(signal.SIGTERM, stop)
print("waiting", flush=True)
time.sleep(600)
"""


def check_backend(
    name: str, build: Callable[[], Backend], runs: Path, *, seconds: float = 60.0, needs: Needs | None = None
) -> None:
    """Submit three jobs and follow each to its end: one that succeeds, one that fails, one that is asked to stop.

    `name` is the part's; `build` makes the backend anew for each call, as a later process would; `runs` is where the
    project in the working directory keeps its run directories; `seconds` is how long a job may take to get on; `needs`
    is the machine that a renting backend is asked for.
    """
    with contextlib.ExitStack() as built:

        def built_anew() -> Backend:
            backend = build()
            if isinstance(backend, Closes):
                built.callback(backend.close)
            return backend

        check = Check(name, built_anew, runs, seconds, needs or Needs())
        check.success()
        check.failure()
        check.stopping()


@runtime_checkable
class Closes(Protocol):
    """A backend that keeps connections, and can give them up."""

    def close(self) -> None:
        """Give them up."""


class Check:
    """One backend under check."""

    def __init__(self, name: str, build: Callable[[], Backend], runs: Path, seconds: float, needs: Needs) -> None:
        self.name, self.build, self.runs, self.seconds, self.needs = name, build, runs, seconds, needs

    def success(self) -> None:
        """A job that writes a result: quoted, submitted, followed, fetched twice, deleted twice."""
        run, job = self._job("writes", ("first", WRITES), ("second", "print('and more')"))
        quote = self.build().quote(job)
        require(isinstance(quote, Quote) and quote.description, "quote() describes nothing")
        require(not self._owns(run), "quote() creates something")
        receipt = self._submitted(job, run)
        state = self._ended(receipt)
        require(state.exit_code == 0, f"a job that succeeds ends with exit code {state.exit_code}: {state.reason}")
        self._check_logs(receipt, run, {"first": "hello", "second": "and more"})
        for _ in range(2):
            self.build().records(receipt, run)
            missing = list(self.build().fetch(receipt, run))
            require(not missing, f"fetch() could not bring {', '.join(missing)}")
        result = run.path / "result.txt"
        brought = result.is_file() and result.read_text(encoding="utf-8") == "done"
        require(brought, "fetch() does not bring result.txt as the job wrote it")
        self._check_over(receipt, run)

    def failure(self) -> None:
        """A stage that fails ends the job with its code, and no later stage runs."""
        run, job = self._job("fails", ("first", FAILS), ("second", WRITES))
        receipt = self._submitted(job, run)
        state = self._ended(receipt)
        right = state.exit_code == 3 and state.stage in ("first", None)  # a later process need not know which
        require(right, f"a stage that exits with 3 is reported as {state.exit_code} in stage {state.stage}")
        self.build().fetch(receipt, run)
        require(not (run.path / "result.txt").exists(), "a stage runs although the one before failed")
        self._check_over(receipt, run)

    def stopping(self) -> None:
        """A worker that is asked to stop may save; asking twice is safe."""
        run, job = self._job("waits", ("only", WAITS))
        receipt = self._submitted(job, run)
        self._until(receipt, lambda: any(line.text == "waiting" for line in self.build().logs(receipt, run)), "start")
        require(self.build().state(receipt).phase == "running", "a job that runs is not reported as running")
        require(self._owns(run), "owned() does not name a job that runs")
        self.build().stop(receipt)
        self.build().stop(receipt)
        state = self._ended(receipt)
        require(
            state.exit_code == 143, f"a job asked to stop ends with exit code {state.exit_code}, not the worker's 143"
        )
        self.build().fetch(receipt, run)
        require((run.path / "saved.txt").is_file(), "a job asked to stop has no time to save")
        self._check_over(receipt, run)

    def _job(self, name: str, *scripts: tuple[str, str]) -> tuple[RunDirectory, Job]:
        run = RunDirectory.create(self.runs, f"conformance-{name}")
        created = datetime.now(UTC).isoformat()
        records.write_json(run.config, {"schema": 1, "run_id": run.id, "created": created, "backend": self.name})
        records.write_json(run.outcome, {"schema": 1, "status": "created", "attempt": 1, "started": created})
        bundle = archive.pack([("src/lab/jobs/stages.py", Path(stages.__file__).read_bytes(), False)])
        records.write_bytes(run.bundle, bundle)
        planned = tuple(Stage(stage, (PYTHON, "-c", code, RUN)) for stage, code in scripts)
        digest = hashlib.sha256(bundle).hexdigest()
        job = Job(run_id=run.id, stages=planned, bundle_sha256=digest, needs=self.needs, seconds=JOB_SECONDS)
        records.write_json(run.job, {"schema": 1, **job.record()})
        return run, job

    def _submitted(self, job: Job, run: RunDirectory) -> Receipt:
        receipt = self.build().submit(job, run)
        require(receipt.backend == self.name, f"the receipt names the backend {receipt.backend}, not {self.name}")
        require(receipt.run_id == run.id, f"the receipt is of run {receipt.run_id}, not of {run.id}")
        require(receipt.handle, "the receipt has no handle: no later process can find the job")
        require(run.receipt.is_file(), "submit() leaves no receipt in the run directory")
        return receipt

    def _ended(self, receipt: Receipt) -> JobState:
        self._until(receipt, lambda: self.build().state(receipt).phase not in ("waiting", "running"), "end")
        state, again = self.build().state(receipt), self.build().state(receipt)
        require(state == again, f"the state of a job that ended changes: {state} and {again}")
        require(state.phase == "finished", f"a job that ended is reported as {state.phase}: {state.reason}")
        return state

    def _until(self, receipt: Receipt, reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + self.seconds
        while not reached():
            state = self.build().state(receipt)
            require(time.monotonic() < deadline, f"the job does not {what} within {self.seconds:g} s: {state}")
            time.sleep(POLL_SECONDS)

    def _check_logs(self, receipt: Receipt, run: RunDirectory, wanted: dict[str, str]) -> None:
        lines = list(self.build().logs(receipt, run))
        require(all(isinstance(line, LogLine) for line in lines), "logs() yields something that is no LogLine")
        for stage, text in wanted.items():
            require(LogLine(stage, text) in lines, f"the log of stage {stage} lacks {text!r}: {lines}")

    def _check_over(self, receipt: Receipt, run: RunDirectory) -> None:
        """Stop and delete after the end, twice each; nothing is owned afterwards, and the end is still known."""
        for action in ("stop", "delete"):
            for _ in range(2):
                getattr(self.build(), action)(receipt)
        require(not self._owns(run), "owned() still names a job that was deleted")
        state = self.build().reconcile(receipt)
        require(state.phase in ("finished", "lost"), f"after its deletion a job is {state.phase}")

    def _owns(self, run: RunDirectory) -> bool:
        return any(resource.run_id == run.id for resource in self.build().owned())
