"""One line of the list of runs, read from a run's records."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import elapsed, records, tags
from lab.runs.status import status

if TYPE_CHECKING:
    from pathlib import Path

    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record


@dataclass(frozen=True)
class Row:
    """What a listing shows of one run; None where the run does not say."""

    id: str
    path: Path
    experiment: str | None = None
    group: str | None = None
    backend: str | None = None
    status: str = "created"
    stage: str | None = None
    reason: str = ""
    exit_code: int | None = None
    attempt: int = 1
    created: str | None = None
    steps: int | None = None
    planned_steps: int | None = None
    loss: float | None = None
    evaluation_loss: float | None = None
    tokens_per_second: float | None = None
    mfu: float | None = None
    elapsed_seconds: float | None = None
    """What the worker says that it took; where it says nothing, what the stages took, until the run's last sign."""
    resource: str | None = None
    handle: str | None = None
    gpu: str | None = None
    fingerprint: str | None = None
    change: str = ""
    """What the run declares to change last: on its command line, else in its experiment."""
    tags: tuple[str, ...] = ()
    note: str = ""


def read_row(run: RunDirectory) -> Row:
    """One run's row from its records; a record that cannot be read leaves its columns empty."""
    config, summary, resource, receipt = (
        _lenient(path) for path in (run.config, run.summary, run.resource, run.receipt)
    )
    experiment = _table(config, "experiment")
    measured, loss = _table(summary, "measured"), _table(summary, "loss")
    now = status(run)
    labels = tags.read(run)
    seen = {} if summary else _latest(run)
    took = _number(summary.get("elapsed_seconds"))
    return Row(
        id=run.id,
        path=run.path,
        experiment=_text(experiment.get("name")),
        group=_text(experiment.get("group")),
        backend=_text(config.get("backend")),
        status=now.word,
        stage=now.stage,
        reason=now.reason,
        exit_code=now.exit_code,
        attempt=now.attempt,
        created=_text(config.get("created")),
        steps=_whole(summary.get("steps", _table(seen, "step").get("step"))),
        planned_steps=_whole(_table(experiment, "train").get("steps")),
        loss=_number(loss.get("last", _table(seen, "step").get("loss"))),
        evaluation_loss=_number(_last_evaluation(loss, seen).get("loss")),
        tokens_per_second=_number(measured.get("tokens_per_second")),
        mfu=_number(measured.get("mfu")),
        elapsed_seconds=elapsed.by_stages(run) if took is None else took,
        resource=_text(resource.get("status")),
        handle=_text(receipt.get("handle")),
        gpu=_gpu(_lenient(run.environment), resource),
        fingerprint=_text(config.get("fingerprint")),
        change=_change(config),
        tags=labels.tags,
        note=labels.note,
    )


def _gpu(environment: Record, resource: Record) -> str | None:
    """The GPU that the worker found; until it says, the one that was rented."""
    device = _table(environment, "device")
    if device:
        return None if device.get("type") == "cpu" else _text(device.get("name"))
    return _text(resource.get("gpu"))


def _change(config: Record) -> str:
    """The last declared change as it would be typed: `optimizer.learning_rate=0.003`."""
    return ", ".join(f"{key}={after}" for key, _, after in last_change(config)[1])


def last_change(config: Record) -> tuple[str, list[tuple[str, str, str]]]:
    """From what the run's last declared change starts, and each key of it with both values, as texts."""
    links = config.get("declarations")
    link = links[-1] if isinstance(links, list) and links else {}
    if not isinstance(link, dict):
        return "", []
    changes = link.get("changes")
    found = [one for one in changes if isinstance(one, dict)] if isinstance(changes, list) else []
    sides = [(str(one.get("key")), _written(one.get("before")), _written(one.get("after"))) for one in found]
    return str(link.get("base") or ""), sides


def _written(value: object) -> str:
    """As a person types it."""
    return value if isinstance(value, str) else "-" if value is None else json.dumps(value)


def _latest(run: RunDirectory) -> Record:
    """The latest line of each kind, while there is no summary."""
    return {str(line.get("kind")): line for line in records.last_lines(run.metrics)}


def _last_evaluation(loss: Record, seen: Record) -> Record:
    evaluations = loss.get("evaluations")
    last = evaluations[-1] if isinstance(evaluations, list) and evaluations else seen.get("evaluation")
    return last if isinstance(last, dict) else {}


def _lenient(path: Path) -> Record:
    try:
        return records.read_json(path) or {}
    except LabError:
        return {}


def _table(record: Record, key: str) -> Record:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
