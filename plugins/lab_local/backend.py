"""The local backend: the stage runner in a session of its own, found again by the lock that it holds."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from lab.contracts import JobState, LogLine, Quote, Receipt, Resource
from lab.errors import LabError
from lab.jobs import CODE, PYTHON, RUN, STORE, archive, stages
from lab.runs import logs, records, regular
from lab.runs.directory import RunDirectory
from lab.runs.index import rows
from lab.runs.secrets import Secrets
from lab.runs.status import attempt_lines, execution, is_held, unrecorded
from lab.settings import read_settings, variables
from lab_local.variables import stage_variables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import BaseModel

    from lab.jobs import Job

START_SECONDS = 60.0
END_SECONDS = 15.0


class LocalBackend:
    """Runs jobs on this machine; a receipt's handle is the run's folder, where the runner's records and lock are."""

    def __init__(self, options: BaseModel | None = None) -> None:
        self.options = options

    def quote(self, job: Job) -> Quote:
        """This machine costs nothing more than it does anyway."""
        return Quote(f"this machine, up to {job.seconds / 3600:g} h")

    def submit(self, job: Job, run: RunDirectory) -> Receipt:
        """Unpack the code, then start the stage runner, which records itself before this returns."""
        if is_held(run.stages) and (execution(run).phase == "running" or not _let_go(run)):
            raise LabError(f"{run.id}: another stage runner is at work on this run", "Wait until it has ended.")
        store = read_settings().store_folder
        code = archive.code_folder(run.bundle, job.bundle_sha256, store)
        places = {PYTHON: sys.executable, RUN: str(run.path), CODE: str(code), STORE: str(store)}
        plan = job.stage_plan(places, records=str(run.stages), logs=str(run.logs))
        receipt = Receipt(backend="local", run_id=run.id, handle=str(run.path))
        try:
            run.logs.mkdir(exist_ok=True)
            records.write_json(run.stage_plan, plan)
            records.write_json(run.receipt, {"schema": 1, "backend": receipt.backend, "handle": receipt.handle})
            covered = Secrets(variables(read_settings().project)).values
            _start(run.stage_plan, stage_variables(os.environ, job.forwarded, code), run.path, covered)
        except OSError as error:
            raise regular.unwritable(run.path, error) from error
        return receipt

    def state(self, receipt: Receipt) -> JobState:
        """Read the runner's lines, and see whether it lives."""
        run = _run(receipt)
        now = execution(run)
        if now.phase == "waiting":  # it entered before `submit` returned
            return JobState("lost", reason=unrecorded(run))
        phase = "lost" if now.phase == "elsewhere" else now.phase
        return JobState(phase, now.stage, now.exit_code, now.reason)

    def records(self, receipt: Receipt, run: RunDirectory) -> None:
        """Nothing to bring: the stages write into the run's folder."""

    def logs(self, receipt: Receipt, run: RunDirectory) -> Iterator[LogLine]:
        """Yield the logs of the latest attempt's stages, in the order in which they started."""
        for stage in _started_stages(run):
            yield from (LogLine(stage, line) for line in logs.read(run.logs / f"{stage}.log"))

    def fetch(self, receipt: Receipt, run: RunDirectory) -> Sequence[str]:
        """Everything is home already; name what should be there and is not."""
        expected = [f"logs/{stage}.log" for stage in _started_stages(run)]
        expected += [str(line["path"]) for line in records.read_lines(run.artifacts) if "path" in line]
        absent = [name for name in expected if not (run.path / name).is_file()]
        return [f"{name}: {'it is no file' if (run.path / name).exists() else 'it is not there'}" for name in absent]

    def stop(self, receipt: Receipt) -> None:
        """Ask the running stage to finish its step, save and exit."""
        _signal_runner(_run(receipt), signal.SIGTERM)

    def start(self, receipt: Receipt) -> None:
        """Refused: a process that ended cannot be started again."""
        raise LabError("A local run has no machine to start.", f"To go on: lab resume {receipt.run_id}")

    def delete(self, receipt: Receipt) -> None:
        """End the job's processes at once, and wait until they have ended."""
        run = _run(receipt)
        _signal_runner(run, signal.SIGQUIT)
        if not _let_go(run):
            raise LabError(f"{run.id}: its stage runner does not end", "Look for its processes with `ps`.")
        if execution(run).phase == "running":  # the runner was killed before, and its stage outlived it
            pid = next(line["pid"] for line in reversed(attempt_lines(run)) if line.get("event") == "started")
            os.killpg(pid, signal.SIGKILL)

    def reconcile(self, receipt: Receipt) -> JobState:
        """The records and the lock tell everything, whoever asks."""
        return self.state(receipt)

    def owned(self) -> Sequence[Resource]:
        """The jobs of this project that run here now."""
        running = [row for row in rows(read_settings()) if row.status == "running" and row.backend == "local"]
        return [Resource(handle=str(row.path), run_id=row.id, state=row.status, created=row.created) for row in running]


def _let_go(run: RunDirectory) -> bool:
    """Wait until no stage runner holds the run: one lives on for an instant after it recorded the job's end."""
    patience = time.monotonic() + END_SECONDS
    while is_held(run.stages):
        if time.monotonic() > patience:
            return False
        time.sleep(0.02)
    return True


def _run(receipt: Receipt) -> RunDirectory:
    return RunDirectory(Path(receipt.handle))


def _start(plan: Path, environment: dict[str, str], folder: Path, covered: Sequence[str]) -> None:
    command = [sys.executable, "-I", "-S", stages.__file__, "--detach", str(plan)]
    started = subprocess.run(
        command, env=environment, cwd=folder, input=json.dumps(covered), capture_output=True, text=True,
        errors="replace", timeout=START_SECONDS, check=False,
    )  # fmt: skip
    if started.returncode:
        raise LabError(f"The stage runner could not start: {started.stderr.strip()}")


def _started_stages(run: RunDirectory) -> list[str]:
    return [str(line["stage"]) for line in attempt_lines(run) if line.get("event") == "started" and "stage" in line]


def _signal_runner(run: RunDirectory, number: int) -> None:
    """Signal the process that holds the lock: while it is held, the number that its holder recorded is its own."""
    import psutil

    lines = attempt_lines(run)
    pid = lines[0].get("pid") if lines else None
    if not isinstance(pid, int) or not is_held(run.stages):
        return
    try:
        process = psutil.Process(pid)
        if str(run.stage_plan) in process.cmdline():
            process.send_signal(number)
    except psutil.Error:
        return  # it ended meanwhile
