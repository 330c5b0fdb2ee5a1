"""Going on with a run that ended early: the same experiment, the same code, the next attempt in the same directory."""

from __future__ import annotations

import fcntl
import hashlib
import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pydantic import ValidationError

from lab.contracts import JobState
from lab.errors import LabError, Refused, UsageError
from lab.experiment import Experiment, PartChoice
from lab.launch import carried, changes, collect, recording
from lab.launch.job_of import job_of
from lab.launch.variables import export, variables
from lab.runs import attempts, records, regular, saved
from lab.runs.secrets import Secrets
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab.contracts import Backend
    from lab.contracts.backend import JobPhase
    from lab.jobs import Job
    from lab.plugins import Plugins
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record
    from lab.runs.status import Status
    from lab.settings import Settings

_SHOWN = 20
AS_RECORDED = "To go on exactly as recorded, with the experiment and the code kept in the run: --as-recorded"


@dataclass(frozen=True)
class Resumption:
    """A run that is ready for its next attempt; nothing is written yet."""

    run: RunDirectory
    experiment: Experiment
    config: Record
    job: Job
    backend: Backend
    before: Status
    """How the previous attempt ended."""
    from_checkpoint: bool


def prepare(run: RunDirectory, settings: Settings, plugins: Plugins, *, as_recorded: bool) -> Resumption:
    """Check that the next attempt continues the same run.

    Raises `UsageError` for a run that needs none, and `Refused` naming every difference for one that would change.
    """
    before = status(run)
    if before.word == "completed":
        name = (_read(run.config).get("experiment") or {}).get("name", "NAME")
        raise UsageError(f"{run.id} has completed: there is nothing to resume.", f"Start a new one: lab run {name}")
    if before.word == "running":
        raise UsageError(f"{run.id} is still running.", f"Look at it with: lab runs show {run.id}")
    config = _read(run.config)
    provenance = _read(run.provenance)
    experiment = recorded_experiment(run, config)
    if not as_recorded:
        changed = changes.since(config, provenance, experiment, settings, plugins)
        if changed:
            raise Refused(_told(run, changed), AS_RECORDED)
        experiment = changes.current(config, settings, plugins)
    known = variables(settings)
    bundle_sha256 = provenance.get("bundle_sha256")
    if not isinstance(bundle_sha256, str):
        raise LabError(f"{run.provenance}: does not say which bundle ran.", "Start anew with: lab run")
    _require_code(run, bundle_sha256)
    job = job_of(experiment, plugins, bundle_sha256, known)
    _require_files(run, job)
    from_checkpoint = _whole_checkpoint(run)
    export(job.forwarded, known)
    backend = plugins.build("backend", recorded_backend(config))
    carried.checked(backend, provenance.get("plugins"), Secrets(known))
    return Resumption(
        run=run,
        experiment=experiment,
        config={**config, "experiment": experiment.model_dump(mode="json")},
        job=replace(job, run_id=run.id, attempt=before.attempt + 1),
        backend=backend,
        before=before,
        from_checkpoint=from_checkpoint,
    )


@contextmanager
def claim(run: RunDirectory) -> Iterator[None]:
    """Keep other commands from resuming the run: its folder is locked, however this process ends."""
    handle = os.open(run.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            look = f"Look at it with: lab runs show {run.id}"
            raise UsageError(f"{run.id} is being resumed by another command.", look) from error
        yield
    finally:
        os.close(handle)


def begin(resumption: Resumption) -> None:
    """Put the figures of the previous attempt aside and open the next one; without a checkpoint it starts over.

    For whoever holds the run's `claim`. Raises `UsageError` when the run went on since it was looked at.
    """
    run, before, previous = resumption.run, resumption.before, resumption.before.attempt
    if status(run) != before:
        raise UsageError(f"{run.id} went on meanwhile, by another command.", f"Look at it with: lab runs show {run.id}")
    run.attempts.mkdir(exist_ok=True)
    if not before.recorded:  # whoever should have written how it ended was killed
        phase: JobPhase = "lost" if before.word == "lost" else "finished"
        collect.settle(run, JobState(phase, before.stage, before.exit_code, before.reason), previous)
    attempts.put_aside(run, previous)
    if not resumption.from_checkpoint:
        attempts.rewind_metrics(run, previous, step=-1)
    if records.read_json(run.config) != resumption.config:
        records.write_bytes(run.earlier(previous, run.config), run.config.read_bytes())
        records.write_json(run.config, resumption.config)
    records.write_json(run.job, resumption.job.record())
    recording.set_outcome(run, "created", resumption.job.attempt)


def recorded_experiment(run: RunDirectory, config: Record) -> Experiment:
    """The experiment as the run's config has it. Raises `LabError` for a config that this lab cannot read."""
    try:
        return Experiment.model_validate(config.get("experiment"))
    except ValidationError as error:
        key = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise LabError(f"{run.config}: is not an experiment of this lab: {key}: {error.errors()[0]['msg']}") from error


def recorded_backend(config: Record) -> PartChoice:
    """The backend that a run's config names, with its options. Raises `LabError` when it names none."""
    name, options = config.get("backend"), config.get("backend_options")
    if not isinstance(name, str) or not name:
        raise LabError(f"The config of run {config.get('run_id')} names no backend.", "Start anew with: lab run")
    return PartChoice.model_validate({**(options if isinstance(options, dict) else {}), "name": name})


def _read(path: Path) -> Record:
    record = records.read_json(path)
    if record is None:
        raise LabError(f"{path} is missing: without it nobody knows what to go on with.", "Start anew with: lab run")
    return record


def _require_code(run: RunDirectory, sha256: str) -> None:
    """Raise `LabError` when the bundle kept in the run is not the one that ran: found before it costs an attempt."""
    try:
        with regular.opened(run.bundle) as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LabError(f"{run.bundle}: cannot be read: {error.strerror}", "Start anew with: lab run") from error
    if actual != sha256:
        raise LabError(f"{run.bundle}: is damaged: it is not the code that ran.", "Start anew with: lab run")


def _require_files(run: RunDirectory, job: Job) -> None:
    """Raise `LabError` for what is no file where the attempt reads or writes one: found before it costs an attempt."""
    logs = [run.logs / f"{name}.log" for name in ("runner", *(stage.name for stage in job.stages))]
    written = (run.stages, run.metrics, run.artifacts, run.tracking, run.checkpoint, run.data_manifest)
    figures = (run.summary, run.environment, run.outcome)
    for path in (*written, *figures, *logs):
        try:
            regular.require(path)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise regular.unreadable(path, error) from error


def _whole_checkpoint(run: RunDirectory) -> bool:
    """Whether there is a checkpoint. Raises `LabError` for a damaged one: found before it costs an attempt."""
    try:
        saved.require_whole(run.checkpoint)
    except FileNotFoundError:
        return False
    return True


def described(resumption: Resumption) -> str:
    """Say which attempt starts, and from where."""
    start = "from its checkpoint" if resumption.from_checkpoint else "from the start: it has no checkpoint"
    return f"{resumption.run.id}: attempt {resumption.job.attempt}, {start}"


def _told(run: RunDirectory, differences: list[str]) -> str:
    more = [f"and {len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
    listed = "\n".join(f"  {line}" for line in [*differences[:_SHOWN], *more])
    return f"{run.id} cannot be resumed as it was: it would go on with something else.\n{listed}"
