"""What launch writes into a run directory: the run's beginning, and how it stands from then on."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lab.contracts import Receipt
from lab.errors import LabError
from lab.runs import records, repository, tags
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.jobs import Job
    from lab.launch.plan import Plan
    from lab.runs.status import Word


def create(plan: Plan, labels: Sequence[str] = ()) -> tuple[RunDirectory, Job]:
    """Make the run's directory with everything that is known before it starts; on failure nothing is left."""
    run = RunDirectory.create(plan.settings.runs_folder, plan.experiment.name)
    job = replace(plan.job, run_id=run.id)
    try:
        records.write_bytes(run.bundle, plan.bundle.archive)
        records.write_json(run.provenance, plan.provenance)
        _write_patch(plan, run)
        records.write_json(run.job, job.record())
        records.write_json(run.resource, {"schema": 1, "status": "none"})
        if labels:
            tags.change(run, add=labels, secrets=plan.secrets)
        set_outcome(run, "created")
        records.write_json(run.config, plan.config(run.id))  # last: a directory without it is no run
    except BaseException:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return run, job


def set_outcome(
    run: RunDirectory,
    word: Word,
    attempt: int = 1,
    *,
    stage: str | None = None,
    exit_code: int | None = None,
    reason: str = "",
    ended: str | None = None,
) -> None:
    """Say how the training stands; what an earlier call said of the start of this attempt is kept."""
    before: records.Record | None = None
    with contextlib.suppress(LabError):  # a damaged outcome is replaced
        before = records.read_json(run.outcome)
    known = before if before and before.get("attempt") == attempt else {}
    started = known.get("started") or (now() if word == "running" else None)
    record = {"schema": 1, "status": word, "attempt": attempt, "started": started, "ended": ended}
    records.write_json(run.outcome, {**record, "exit_code": exit_code, "stage": stage, "reason": reason})


def write_receipt(run: RunDirectory, receipt: Receipt) -> None:
    """Remember what finds the job again, for any later process."""
    records.write_json(run.receipt, {"schema": 1, "backend": receipt.backend, "handle": receipt.handle})


def read_receipt(run: RunDirectory) -> Receipt | None:
    """What `write_receipt` remembered, or None when nothing was submitted."""
    record = records.read_json(run.receipt)
    if record is None:
        return None
    backend, handle = record.get("backend"), record.get("handle")
    if not isinstance(backend, str) or not isinstance(handle, str):
        raise LabError(f"{run.receipt}: names no backend or no handle")
    return Receipt(backend=backend, run_id=run.id, handle=handle)


def now() -> str:
    """This moment, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _write_patch(plan: Plan, run: RunDirectory) -> None:
    """Keep what the bundle's tracked files changed since the commit; what is too large is named in its place."""
    roots = sorted({path.partition("/")[0] for path in plan.bundle.hashes})
    text, omitted = repository.patch(plan.settings.project, roots, plan.secrets)
    if text or omitted:
        note = "".join(f"# left out: {what}\n" for what in omitted)
        records.write_bytes(run.patch, note.encode("utf-8", "surrogateescape") + text)
