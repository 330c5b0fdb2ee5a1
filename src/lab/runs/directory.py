"""The run directory: the only module that knows the names of a run's files."""

from __future__ import annotations

import os
import re
import secrets
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from lab.errors import UsageError
from lab.runs import regular

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"^(?P<experiment>.+)-(?P<day>\d{8})-(?P<minute>\d{4})-(?P<end>[0-9a-f]{4})$")
CONFIG = "config.json"
LONGEST_NAME = 80


@dataclass(frozen=True)
class RunDirectory:
    """One run's files. Each has one writer, named beside it."""

    path: Path

    @classmethod
    def create(cls, runs: Path, experiment: str, now: datetime | None = None) -> RunDirectory:
        """Make the directory of a new run, named like `smoke-20261201-0915-7f3a` (UTC and a random end)."""
        moment = (now or datetime.now(UTC)).astimezone(UTC)
        name = re.sub(r"[^\w.-]+", "-", experiment)[:LONGEST_NAME].strip(".-") or "run"
        path = runs
        try:
            runs.mkdir(parents=True, exist_ok=True)
            while True:
                path = runs / f"{name}-{moment:%Y%m%d-%H%M}-{secrets.token_hex(2)}"
                try:
                    path.mkdir()
                except FileExistsError:
                    if not path.is_dir():
                        raise
                    continue
                (path / "logs").mkdir()
                return cls(path)
        except OSError as error:
            raise regular.unwritable(path, error) from error

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
        return self.path / CONFIG

    @property
    def provenance(self) -> Path:
        """Commit, dirty mark, hashes of the files that ran, plugins."""
        return self.path / "provenance.json"

    @property
    def patch(self) -> Path:
        """What the tracked files of the bundle changed since the commit."""
        return self.path / "changes.patch"

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

    @property
    def tracking(self) -> Path:
        """One line each time that a tracker was brought up to date, or was not, and why."""
        return self.path / "tracking.jsonl"

    # backend
    @property
    def receipt(self) -> Path:
        """Where the job was submitted, and what finds it there."""
        return self.path / "receipt.json"

    # a person, through `lab runs tag`
    @property
    def tags(self) -> Path:
        """Tags and a note."""
        return self.path / "tags.json"

    # launch, when the report command asks for it
    @property
    def report(self) -> Path:
        """The page."""
        return self.path / "report.html"

    # backend, for the stage runner
    @property
    def stage_plan(self) -> Path:
        """What the stage runner was started with."""
        return self.path / "stages.json"

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

    def earlier_metrics(self, attempt: int) -> Path:
        """Lines of metrics.jsonl that `attempt` wrote after the checkpoint from which the next one went on."""
        return self.attempts / f"{attempt}.jsonl"

    def earlier(self, attempt: int, record: Path) -> Path:
        """Where a record of `attempt` goes when the next one writes its own."""
        return self.attempts / f"{attempt}-{record.name}"

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
    return [RunDirectory(runs / name) for name in named(runs)]


def named(runs: Path) -> list[str]:
    """The ids of all run directories in `runs`, oldest first; empty when there is no such folder.

    An id tells the minute. Runs of one minute are in the order in which their configs were written: before anything of
    them runs, and again by a resumption of a changed experiment.
    """
    try:
        written = {name: _written(f"{runs}/{name}/{CONFIG}") for name in os.listdir(runs)}
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [name for name, moment in written.items() if moment >= 0]
    return sorted(found, key=lambda name: (_minute(name), written[name], name))


def count(runs: Path) -> int:
    """How many run directories there are in `runs`, without putting them in order."""
    try:
        return sum(_written(f"{runs}/{name}/{CONFIG}") >= 0 for name in os.listdir(runs))
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _minute(name: str) -> str:
    """What an id says of when it began; another name stands for itself."""
    parts = NAME.match(name)
    return parts["day"] + parts["minute"] if parts else name


def _written(path: str) -> int:
    """When a file was written, in nanoseconds; -1 for what is no file."""
    try:
        found = os.stat(path)
    except OSError:
        return -1
    return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else -1
