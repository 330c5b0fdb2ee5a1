"""What MLflow is told beside the points: parameters, tags, data sets, a note, and the files that a person looks at."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.runs import records
from lab.runs.status import status
from lab_mlflow import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from lab.runs.directory import RunDirectory

LONGEST_PARAMETER, LONGEST_TAG, LONGEST_DIGEST = 6000, 5000, 36
LARGEST_FILE = 5 * 2**20
KEY = "lab.run_key"
STATUS = {"completed": "FINISHED", "failed": "FAILED", "lost": "FAILED", "stopped": "KILLED"}
"""Our outcomes in MLflow's words; anything else is RUNNING."""


def parameters(run: RunDirectory) -> tuple[dict[str, str], list[str]]:
    """Every key of the resolved experiment, and the keys whose value or name had to be cut."""
    found: dict[str, str] = {}
    cut = []
    for key, value in _flat(_record(run.config).get("experiment") or {}).items():
        text = names.spelt(value) if isinstance(value, str) else json.dumps(value)
        name = names.written(key)
        if len(text) > LONGEST_PARAMETER or names.read(name) != key:
            cut.append(key[:80])
        note = f"... ({len(text):,} characters: config.json has all)"
        found[name] = text if len(text) <= LONGEST_PARAMETER else text[: LONGEST_PARAMETER - len(note)] + note
    return found, cut


def tags(run: RunDirectory) -> dict[str, str]:
    """What finds the run again, and by which code, machine and data it ran."""
    config, provenance, summary = _record(run.config), _record(run.provenance), _record(run.summary)
    environment, outcome = _record(run.environment), _record(run.outcome)
    experiment, repository = config.get("experiment") or {}, provenance.get("repository") or {}
    found: dict[str, object] = {
        "lab.run_id": run.id,
        KEY: key(run),
        "lab.experiment": experiment.get("name"),
        "lab.group": experiment.get("group"),
        "lab.fingerprint": config.get("fingerprint"),
        "lab.backend": config.get("backend"),
        "lab.status": status(run).word,
        "lab.reason": outcome.get("reason"),
        "lab.code_sha256": provenance.get("code_sha256"),
        "lab.uncommitted_changes": bool(repository.get("tracked_changes")) if repository.get("commit") else None,
        "lab.device": (environment.get("device") or {}).get("name"),
        "lab.device_uuid": (environment.get("device") or {}).get("uuid"),
        "lab.data": _record(run.data_manifest).get("identity"),
        "mlflow.source.git.commit": repository.get("commit"),
        "mlflow.source.git.branch": repository.get("branch"),
        "mlflow.source.git.repoURL": repository.get("remote"),
        "mlflow.source.name": experiment.get("name"),
        "mlflow.source.type": "LOCAL",
        "mlflow.note.content": note(run),
    }
    found |= {f"lab.fingerprint.{name}": value for name, value in (summary.get("fingerprints") or {}).items()}
    return {key: names.spelt(str(value))[:LONGEST_TAG] for key, value in found.items() if value not in (None, "")}


def key(run: RunDirectory) -> str:
    """What a search can find any run by, whatever characters its id has."""
    return hashlib.sha256(run.id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def note(run: RunDirectory) -> str:
    """What MLflow shows on the run's page: what the experiment is, and what it declares to change."""
    config = _record(run.config)
    lines = [str((config.get("experiment") or {}).get("description") or ""), ""]
    lines += [
        f"- `{change.get('key')}`: {change.get('before')} to {change.get('after')} (from {link.get('base')})"
        for link in config.get("declarations") or ()
        for change in link.get("changes") or ()
    ]
    return "\n".join([*lines, "", f"Run directory: `{run.path}`"]).strip()


def figures(run: RunDirectory) -> dict[str, float]:
    """The figures of the normal region, as one point each at the last step."""
    measured = _record(run.summary).get("measured") or {}
    wanted = ("tokens_per_second", "median_step_seconds", "mfu", "peak_allocated_bytes", "peak_reserved_bytes")
    return {f"summary/{key}": float(measured[key]) for key in wanted if isinstance(measured.get(key), (int, float))}


def datasets(run: RunDirectory) -> Iterator[dict[str, str]]:
    """Train and validation tokens as MLflow's data sets; a digest is short there, so the profile has the whole hash."""
    manifest = _record(run.data_manifest)
    for split, facts in (manifest.get("splits") or {}).items():
        digest = str(facts.get("sha256") or manifest.get("identity") or "")
        yield {
            "context": split,
            "name": f"{(manifest.get('source') or {}).get('name') or 'tokens'} {split}",
            "digest": digest[:LONGEST_DIGEST],
            "source_type": "lab",
            "source": json.dumps({"identity": manifest.get("identity"), "source": manifest.get("source")}),
            "profile": json.dumps({**facts, "tokenizer": manifest.get("tokenizer")}, default=str),
        }


def files(run: RunDirectory, kinds: tuple[str, ...]) -> Iterator[Path]:
    """The small files that a person looks at: nothing that leads out of the run directory, no checkpoint, no trace."""
    known = (run.config, run.summary, run.environment, run.provenance, run.data_manifest, run.report)
    inside = run.path.resolve()
    left = [
        run.path / str(line.get("path", "")) for line in records.read_lines(run.artifacts) if line.get("kind") in kinds
    ]
    for path in dict.fromkeys((*known, *left)):
        if path.is_file() and path.resolve().is_relative_to(inside) and path.stat().st_size <= LARGEST_FILE:
            yield path


def milliseconds(run: RunDirectory, key: str) -> int | None:
    """When the run started or ended, by its outcome; a start that nobody wrote is when it was created."""
    text = _record(run.outcome).get(key) or (_record(run.config).get("created") if key == "started" else None)
    try:
        return int(datetime.fromisoformat(str(text)).timestamp() * 1000)
    except ValueError:
        return None


def planned_steps(run: RunDirectory) -> int:
    """How many steps the run was to have."""
    steps = ((_record(run.config).get("experiment") or {}).get("train") or {}).get("steps")
    return steps if isinstance(steps, int) else 0


def last_step(run: RunDirectory) -> int:
    """The last step of a run that has a summary."""
    steps = _record(run.summary).get("steps")
    return steps if isinstance(steps, int) else 0


def experiment(run: RunDirectory) -> str:
    """The group, which is what a person compares; without one the experiment's name."""
    found = _record(run.config).get("experiment") or {}
    return names.spelt(str(found.get("group") or found.get("name") or run.id))


def _record(path: Path) -> dict[str, Any]:
    try:
        return records.read_json(path) or {}
    except LabError:
        return {}


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    leaves: dict[str, object] = {}
    for key, value in record.items():
        if isinstance(value, dict) and value:
            leaves |= _flat(value, f"{prefix}{key}.")
        elif value is not None and value != {}:
            leaves[f"{prefix}{key}"] = value
    return leaves
