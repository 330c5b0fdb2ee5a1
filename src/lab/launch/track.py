"""Trackers as processes of their own: they mirror a run while it happens, and can neither slow nor end it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import IO, TYPE_CHECKING

from lab.errors import LabError
from lab.experiment import PartChoice
from lab.here import here
from lab.launch import scratch
from lab.plugins import needs
from lab.runs import records
from lab.runs.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from lab.experiment import Experiment
    from lab.plugins import Plugins
    from lab.runs.directory import RunDirectory

DEFAULT = ("mlflow",)
"""On unless the experiment says `trackers.<name> = false`."""
PATIENCE_SECONDS = 120.0
SOON_SECONDS = 1.0
QUIET_NICENESS = 10
_LAST_BYTES = 2000


@dataclass
class Tracking:
    """One tracker's process, and what became of it."""

    name: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    errors: IO[bytes]
    done: bool = field(default=False)


class Trackers:
    """The trackers of one run: started with it, tended while it runs, waited for at its end."""

    def __init__(
        self,
        run: RunDirectory,
        names: tuple[str, ...],
        tell: Callable[[str], None],
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._run = run
        self._names = names
        self._tell = tell
        self._variables = {**os.environ, **variables}
        self._running: list[Tracking] = []
        self._said = False
        self.links: dict[str, str] = {}

    def start(self) -> None:
        """Start one process for each tracker; it follows the run until the run has ended."""
        for name in self._names:
            try:
                self._running.append(_started(self._run, name, self._variables))
            except OSError as error:
                self._failed(name, error.strerror or str(error))

    def tend(self) -> None:
        """Say once when a tracker has ended, and why."""
        for tracking in self._running:
            if not tracking.done and tracking.process.poll() is not None:
                self._close(tracking)

    def finish(self, stopped: Callable[[], bool] = lambda: False, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for what is still being mirrored; what takes too long is ended and can be synced later.

        When `stopped` says so it is left to itself: it needs nobody.
        """
        patience = time.monotonic() + patience_seconds
        for tracking in self._running:
            while not tracking.done:
                if stopped():
                    self._leave()
                    return
                self._await(tracking, patience, patience_seconds)

    def _leave(self) -> None:
        again = "; ".join(later(self._run, tracking.name) for tracking in self._running if not tracking.done)
        self._tell(f"{self._unfinished()}: goes on by itself (should that be ended too: {again})")

    def _await(self, tracking: Tracking, patience: float, patience_seconds: float) -> None:
        try:
            tracking.process.wait(min(SOON_SECONDS, max(0.0, patience - time.monotonic())))
        except subprocess.TimeoutExpired:
            if time.monotonic() < patience:
                self._say_once(f"mirroring into {self._unfinished()}; Ctrl-C leaves it to itself")
                return
            tracking.process.kill()
            tracking.process.wait()
            scratch.sweep()
            tracking.errors.write(f"took longer than {patience_seconds:g} s".encode())
        self._close(tracking)

    def _say_once(self, text: str) -> None:
        if not self._said:
            self._said = True
            self._tell(text)

    def _unfinished(self) -> str:
        return ", ".join(tracking.name for tracking in self._running if not tracking.done)

    def _close(self, tracking: Tracking) -> None:
        tracking.done = True
        with tracking.output, tracking.errors:
            if tracking.process.returncode == 0:
                self._succeeded(tracking.name, _tail(tracking.output))
            else:
                self._failed(tracking.name, _reason(_tail(tracking.errors)) or f"exit {tracking.process.returncode}")

    def _succeeded(self, name: str, answer: str) -> None:
        try:
            link = json.loads(answer).get("link")
        except (ValueError, AttributeError):
            link = None
        if isinstance(link, str):
            self.links[name] = link
        self._note({"tracker": name, "synced": True, "link": link})

    def _failed(self, name: str, reason: str) -> None:
        reason = Secrets(self._variables).hidden(reason)
        self._tell(f"{name}: {reason} (the run is complete without it; later: {later(self._run, name)})")
        self._note({"tracker": name, "synced": False, "reason": reason})

    def _note(self, line: records.Record) -> None:
        try:
            records.append_line(self._run.tracking, {**line, "time": time.time()})
        except LabError as error:
            self._tell(error.what)


def wanted(experiment: Experiment, plugins: Plugins, tell: Callable[[str], None]) -> tuple[str, ...]:
    """The trackers that launch starts: those named and the default ones, where their libraries are installed."""
    return tuple(_usable(experiment, plugins, tell))


def choice(experiment: Experiment, name: str) -> PartChoice:
    """The tracker with the options that the experiment gives it."""
    return PartChoice.model_validate({**_options(experiment, name), "name": name})


def later(run: RunDirectory, name: str) -> str:
    """The command that mirrors the run at any later time."""
    return f"lab runs track {run.id} --to {name}"


def _usable(experiment: Experiment, plugins: Plugins, tell: Callable[[str], None]) -> Iterator[str]:
    for name in dict.fromkeys((*DEFAULT, *experiment.trackers)):
        if experiment.trackers.get(name) is False or _options(experiment, name).get("where") == "worker":
            continue
        try:
            missing = needs.missing(*plugins.find("tracker", name))
        except LabError as error:
            if name in experiment.trackers:
                tell(f"{name}: {error.what}")
            continue
        if missing:
            tell(f"{name}: not mirrored, {', '.join(missing)} is not installed")
        else:
            yield name


def _options(experiment: Experiment, name: str) -> dict[str, object]:
    options = experiment.trackers.get(name)
    return dict(options) if isinstance(options, dict) else {}


def _started(run: RunDirectory, name: str, variables: Mapping[str, str]) -> Tracking:
    """In a session of its own, so that neither Ctrl-C nor a closed terminal cuts a mirror short."""
    command = [sys.executable, "-m", "lab", "runs", "track", str(run.path), "--to", name, "--live", "--json"]
    with contextlib.ExitStack() as opened:
        output = opened.enter_context(tempfile.TemporaryFile())
        errors = opened.enter_context(tempfile.TemporaryFile())
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True, env=variables,
            cwd=here(),  # where it looks for the project, whatever a plugin did here meanwhile
        )  # fmt: skip
        opened.pop_all()
    return Tracking(name, process, output, errors)


def _tail(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _LAST_BYTES))
    return file.read().decode("utf-8", "replace").strip()


def _reason(errors: str) -> str:
    """The line that says what is wrong: ours when there is one, else the last."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("Error:")]
    return (ours or lines or [""])[-1].removeprefix("Error:").strip()
