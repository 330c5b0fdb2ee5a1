"""The run directory: the only module that knows the names of a run's files."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"^(?P<experiment>.+)-(?P<day>\d{8})-(?P<minute>\d{4})-(?P<end>[0-9a-f]{4})$")


@dataclass(frozen=True)
class RunDirectory:
    """One run's files. Each has one writer, named beside it."""

    path: Path

    @classmethod
    def create(cls, runs: Path, experiment: str, now: datetime | None = None) -> RunDirectory:
        """Make the directory of a new run, named like `smoke-20261201-0915-7f3a` (UTC and a random end)."""
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        try:
            runs.mkdir(parents=True, exist_ok=True)
            while True:
                path = runs / f"{experiment}-{moment:%Y%m%d-%H%M}-{secrets.token_hex(2)}"
                try:
                    path.mkdir()
                except FileExistsError:
                    continue
                (path / "logs").mkdir()
                return cls(path)
        except OSError as error:
            raise LabError(
                f"{runs}: a run directory cannot be created: {error.strerror}",
                "Free space or permissions there, or set LAB_RUNS to another folder.",
            ) from error

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """The run directory at `path`, which must hold a config."""
        run = cls(path)
        if not run.config.is_file():
            raise UsageError(f"{path} is not a run directory: it has no {run.config.name}.")
        return run

    @property
    def id(self) -> str:
        """The run's name everywhere."""
        return self.path.name

    # launch
    @property
    def config(self) -> Path:
        """The resolved experiment, its fingerprint and its declared changes."""
        return self.path / "config.json"

    @property
    def provenance(self) -> Path:
        """Commit, dirty mark, hashes of the files that ran, plugins."""
        return self.path / "provenance.json"

    @property
    def bundle(self) -> Path:
        """The code and experiments that ran, as they were."""
        return self.path / "bundle.tar.gz"

    @property
    def job(self) -> Path:
        """What the backend was asked to execute."""
        return self.path / "job.json"

    @property
    def outcome(self) -> Path:
        """How the training ended."""
        return self.path / "outcome.json"

    @property
    def resource(self) -> Path:
        """What became of the machine."""
        return self.path / "resource.json"

    @property
    def cost(self) -> Path:
        """What each phase cost."""
        return self.path / "cost.json"

    # launch, when the report command asks for it
    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    # stage runner
    @property
    def stages(self) -> Path:
        """One line when a stage starts, one when it ends."""
        return self.path / "stages.jsonl"

    @property
    def logs(self) -> Path:
        """The folder of the stages' logs."""
        return self.path / "logs"

    # prepare stage
    @property
    def data_manifest(self) -> Path:
        """Which token cache was used, and its hashes."""
        return self.path / "data-manifest.json"

    @property
    def data_stats(self) -> Path:
        """Documents, tokens, pairs, lengths."""
        return self.path / "data-stats.json"

    # worker, rank 0
    @property
    def environment(self) -> Path:
        """The versions, hardware, precision and kernels really used."""
        return self.path / "environment.json"

    @property
    def metrics(self) -> Path:
        """One line a step, one line an evaluation."""
        return self.path / "metrics.jsonl"

    @property
    def summary(self) -> Path:
        """The figures of the normal region, and the fingerprints."""
        return self.path / "summary.json"

    @property
    def checkpoint(self) -> Path:
        """Loop state, RNG, rolling fingerprint, step, targets."""
        return self.path / "checkpoint.pt"

    @property
    def attempts(self) -> Path:
        """What earlier attempts wrote after the checkpoint that the next one resumed from."""
        return self.path / "attempts"

    # observers and chapters, through the worker
    @property
    def artifacts(self) -> Path:
        """One line an artifact: path, kind, title."""
        return self.path / "artifacts.jsonl"

    # trackers
    def tracker_link(self, tracker: str) -> Path:
        """Where a tracker leaves its link."""
        return self.path / f"{tracker}.json"


def every(runs: Path) -> list[RunDirectory]:
    """All run directories in `runs`, oldest first."""
    if not runs.is_dir():
        return []
    found = [RunDirectory(path) for path in runs.iterdir() if (path / "config.json").is_file()]
    return sorted(found, key=lambda run: (NAME.sub(r"\g<day>\g<minute>", run.id), run.id))
