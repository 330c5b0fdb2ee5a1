"""Where the rentals of a project are kept, and how one is opened again by any later command."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.jobs import Job
from lab.rental import cost, naming
from lab.runs import records
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.rental.facts import Facts
    from lab.rental.journal import Journal
    from lab.rental.provider import Provider
    from lab.rental.rental import Rental

TOKEN_BYTES = 32


def every(store: Path) -> Iterator[str]:
    """The run ids of all rentals, oldest name first."""
    folder = naming.rentals_folder(store)
    if folder.is_dir():
        yield from sorted(entry.name for entry in folder.iterdir() if (entry / "journal.jsonl").is_file())


def folder(store: Path, run_id: str) -> Path:
    """Where one rental's journal and token are."""
    return naming.rentals_folder(store) / run_id


def token(journal: Journal) -> str:
    """The access token of the rental's machines, made on first use; 256 random bits, readable by the owner only."""
    path = journal.folder / "token"
    try:
        return path.read_text(encoding="ascii")
    except FileNotFoundError:
        naming.write_private(path, secrets.token_urlsafe(TOKEN_BYTES))
        return path.read_text(encoding="ascii")


def run_of(journal: Journal) -> RunDirectory:
    """The run directory that a rental belongs to, as its first record says."""
    first = journal.records()[0]["data"]
    return RunDirectory(Path(first["run_path"]))


def job_of(run: RunDirectory) -> Job:
    """What the backend was asked to execute; an empty job where the run directory is gone."""
    record = records.read_json(run.job)
    if record is None:
        return Job(run.id, stages=(), bundle_sha256="")
    try:
        return Job.from_record({key: value for key, value in record.items() if key != "schema"})
    except (KeyError, TypeError, ValueError) as error:
        raise LabError(f"{run.job}: is not a job that this version of lab knows: {error}") from error


def publish(rental: Rental) -> None:
    """Say in the run directory what became of the machine and what it cost; the journal stays the truth."""
    run, facts = rental.run, rental.facts
    if not run.path.is_dir():
        return
    handle = facts.machine_id or run.id
    try:
        records.write_json(run.receipt, {"schema": 1, "backend": rental.provider.name, "handle": handle})
        records.write_json(run.resource, resource(facts, rental.provider))
        stages = list(records.read_lines(run.stages))
        records.write_json(run.cost, cost.record(facts, stages, targets(run), rental.now()))
    except (OSError, LabError) as error:
        rental.say(f"{run.path} cannot be written, which ends nothing: {error}")


def resource(facts: Facts, provider: Provider) -> dict[str, object]:
    """The resource record."""
    stopped = provider.stopped_dollars_per_hour(facts.volume_gb or 0) if facts.alive else 0.0
    return {
        "schema": 1,
        "status": str(facts.state),
        "provider": facts.provider,
        "machine": facts.machine_id or None,
        "name": facts.name or None,
        "gpu": facts.gpu,
        "data_center": facts.data_center,
        "dollars_per_hour": facts.dollars_per_hour,
        "stopped_dollars_per_hour": stopped,
        "max_dollars": facts.max_dollars,
        "console": provider.console_url(facts.machine_id) if facts.machine_id else None,
        "created_unix": facts.created or None,
        "ended_unix": facts.ended or None,
        "deleted": list(facts.deleted),
        "others": list(facts.extras),
        "results_home": facts.verified,
        "missing": list(facts.uncollected),
        "reason": facts.attention if facts.state == "needs attention" else facts.reason,
    }


def targets(run: RunDirectory) -> int | None:
    """How many target tokens the run has trained on, where its summary says so."""
    try:
        summary = records.read_json(run.summary) or {}
    except LabError:
        return None
    overall = summary.get("overall")
    count = overall.get("targets") if isinstance(overall, dict) else None
    return count if isinstance(count, int) and count > 0 else None
