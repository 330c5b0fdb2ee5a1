"""Everything that comparing and reporting know of one run, read once from its directory and never judged here."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lab.compare.series import Evaluations, Steps
from lab.contracts.loss import CROSS_ENTROPY
from lab.errors import LabError
from lab.runs import records, shapes
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record


@dataclass(frozen=True)
class RunFacts:
    """One run's records. A record that is absent or torn is an empty one, and `unreadable` names the torn ones."""

    run: RunDirectory
    config: Record
    provenance: Record
    environment: Record
    manifest: Record
    data_stats: Record
    outcome: Record
    resource: Record
    cost: Record
    summary: Record
    stages: tuple[Record, ...]
    artifacts: tuple[Record, ...]
    steps: Steps
    evaluations: Evaluations
    torn: int
    """Lines of metrics.jsonl that are no whole record."""
    unreadable: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The run's name."""
        return self.run.id

    @cached_property
    def experiment(self) -> Record:
        """The resolved experiment as it stands in the config, without the sections that it does not have."""
        found = self.config.get("experiment")
        return {key: value for key, value in found.items() if value is not None} if isinstance(found, dict) else {}

    @cached_property
    def flat(self) -> dict[str, object]:
        """Every key of the experiment that has a value, as `section.key`."""
        return flattened(self.experiment)

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.experiment.get("name") or self.id)

    @property
    def status(self) -> str:
        """How the training stands or ended, as far as anybody can know it now."""
        return status(self.run).word

    @property
    def own_objective(self) -> str | None:
        """What the loss measures where that is not the cross-entropy, in nats a token, which almost every run has."""
        named = self.environment.get("objective")
        return None if named in (None, CROSS_ENTROPY) else str(named)

    @property
    def attempt(self) -> int:
        """1, or more for a run that was resumed."""
        attempt = self.outcome.get("attempt")
        return attempt if isinstance(attempt, int) else 1

    @property
    def device(self) -> Record:
        """The device that computed."""
        return _inner(self.environment, "device")

    @property
    def measured(self) -> Record:
        """What the worker's summary says of the normal region."""
        return _inner(self.summary, "measured")

    def fingerprint(self, name: str) -> str | None:
        """One of the summary's fingerprints, or None."""
        found = _inner(self.summary, "fingerprints").get(name)
        return found if isinstance(found, str) else None


@dataclass
class _Reader:
    run: RunDirectory
    unreadable: list[str] = field(default_factory=list)

    def json(self, name: str) -> Record:
        path: Path = getattr(self.run, name)
        try:
            return self.fitting(name, records.read_json(path) or {})
        except LabError:
            self.unreadable.append(path.name)
            return {}

    def fitting(self, name: str, record: Record) -> Record:
        """Without values that nothing can be made of; each is named among what is unreadable."""
        found, faults = shapes.fitting(name, record)
        self.unreadable += [f"{getattr(self.run, name).name}: {key}" for key in faults]
        return found

    def lines(self, name: str) -> tuple[Record, ...]:
        path: Path = getattr(self.run, name)
        try:
            return tuple(self.fitting(name, line) for line in records.read_lines(path))
        except LabError:
            self.unreadable.append(path.name)
            return ()

    def count(self, name: str) -> int:
        try:
            return records.count_lines(getattr(self.run, name))
        except LabError:  # `lines` has named it
            return 0


def read(run: RunDirectory) -> RunFacts:
    """Read every record that the run has. Raises `LabError` only when its config cannot be read."""
    config = records.read_json(run.config)
    if config is None:
        raise LabError(f"{run.path} is not a run directory: it has no {run.config.name}.")
    reader = _Reader(run)
    lines = reader.lines("metrics")
    return RunFacts(
        run=run,
        config=reader.fitting("config", config),
        provenance=reader.json("provenance"),
        environment=reader.json("environment"),
        manifest=reader.json("data_manifest"),
        data_stats=reader.json("data_stats"),
        outcome=reader.json("outcome"),
        resource=reader.json("resource"),
        cost=reader.json("cost"),
        summary=reader.json("summary"),
        stages=reader.lines("stages"),
        artifacts=reader.lines("artifacts"),
        steps=Steps.of(line for line in lines if line.get("kind") == "step"),
        evaluations=Evaluations.of(line for line in lines if line.get("kind") == "evaluation"),
        torn=reader.count("metrics") - len(lines),
        unreadable=tuple(reader.unreadable),
    )


def flattened(record: Mapping[str, Any], prefix: str = "") -> dict[str, object]:
    """The leaves of nested objects by dotted key; a key without a value is left out."""
    leaves: dict[str, object] = {}
    for key, value in record.items():
        if isinstance(value, dict):
            leaves.update(flattened(value, f"{prefix}{key}."))
        elif value is not None:
            leaves[f"{prefix}{key}"] = value
    return leaves


def _inner(record: Record, key: str) -> Record:
    found = record.get(key)
    return found if isinstance(found, dict) else {}
