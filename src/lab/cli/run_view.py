"""How a run is shown while it happens: a live picture in a terminal, plain lines anywhere else."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from lab.cli.output import console, plain
from lab.cli.run_figures import Training, stage_mark
from lab.compare.formats import duration, quantity
from lab.runs import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Group
    from rich.text import Text

    from lab.launch.follow import View
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record

PLAIN_SECONDS = 5.0
BAR_WIDTH = 16
WIDE = 100
_ELAPSED_WIDTH = 11
_LOG_BYTES = 2000
_SPINNER = "\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827\u2807\u280f"


def view(run: RunDirectory, planned_steps: int | None, *, quiet: bool) -> View:
    """The view that fits where standard error goes."""
    if quiet:
        return Silent()
    return Live(run, planned_steps) if sys.stderr.isatty() else Lines(planned_steps)


class Silent:
    """Shows only what a person must know."""

    def stage(self, line: Record) -> None:
        """Nothing."""

    def metric(self, line: Record) -> None:
        """Nothing."""

    def notice(self, text: str) -> None:
        """Print it."""
        console(stderr=True).print(plain(text), soft_wrap=True)

    def tick(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Lines(Silent):
    """One line for each stage and each evaluation, and a step now and then."""

    def __init__(self, planned_steps: int | None) -> None:
        self._training = Training(planned_steps)
        self._said = -PLAIN_SECONDS

    def stage(self, line: Record) -> None:
        """Say that a stage starts or ended."""
        if line.get("event") == "started":
            self._training.begin(line)
            self.notice(f"{line.get('stage')}: started")
        elif line.get("event") == "ended":
            self.notice(f"{line.get('stage')}: {_ended(line)}")

    def metric(self, line: Record) -> None:
        """Say every evaluation, and the first, the last and some other steps."""
        training = self._training
        if not training.hear(line):
            return
        if line.get("kind") == "evaluation" and training.evaluation is not None:
            step, loss = training.evaluation
            self.notice(f"evaluation after step {step}: {quantity(loss, 'nats/token')}")
        elif line.get("kind") == "step":
            now = time.monotonic()
            if now - self._said >= PLAIN_SECONDS or training.step == training.planned_steps:
                self._said = now
                total = f"/{training.planned_steps}" if training.planned_steps else ""
                self.notice(f"step {training.step}{total}: {', '.join(training.words())}")


class Live:
    """Stages with their times, and under the running one a bar with the figures of the latest step."""

    def __init__(self, run: RunDirectory, planned_steps: int | None) -> None:
        from rich.live import Live as Region

        self._run = run
        self._training = Training(planned_steps)
        self._trains = False
        self._ended: dict[str, Record] = {}
        self._current: str | None = None
        self._since = time.monotonic()
        self._turn = 0
        self._console = console(stderr=True)
        self._region = Region(console=self._console, auto_refresh=False, transient=False)
        self._region.start()

    def stage(self, line: Record) -> None:
        """Take in a stage's start or end."""
        name = str(line.get("stage"))
        if line.get("event") == "started":
            self._training.begin(line)
            self._current, self._since, self._trains = name, time.monotonic(), False
        elif line.get("event") == "ended":
            self._ended[name], self._current = line, None

    def metric(self, line: Record) -> None:
        """Take in a step or an evaluation, of which the running stage is then the one that trains."""
        if self._training.hear(line):
            self._trains = True

    def notice(self, text: str) -> None:
        """Print it above the picture."""
        self._console.print(plain(text), soft_wrap=True)

    def tick(self) -> None:
        """Draw the picture anew."""
        self._turn += 1
        self._region.update(self._picture(), refresh=True)

    def close(self) -> None:
        """Leave the last picture standing."""
        self._region.stop()

    def _picture(self) -> Group:
        from rich.console import Group

        names = [*self._ended, *([self._current] if self._current else [])]
        width = max(map(len, names), default=0)
        lines = [self._ended_line(name, line, width) for name, line in self._ended.items()]
        if self._current is not None:
            lines.append(self._current_line(self._current, width))
        return Group(*lines)

    def _ended_line(self, name: str, line: Record, width: int) -> Text:
        mark, colour = stage_mark(line.get("exit_code"))
        words = plain(_ended(line), "dim" if colour == "green" else colour)
        return _line(plain(mark, colour), plain(name.ljust(width)), words)

    def _current_line(self, name: str, width: int) -> Text:
        spinner = plain(_SPINNER[self._turn % len(_SPINNER)], "cyan")
        elapsed = plain(duration(time.monotonic() - self._since, decimals=0).ljust(_ELAPSED_WIDTH), "dim")
        return _line(spinner, plain(name.ljust(width), "bold"), elapsed, *self._progress())

    def _progress(self) -> Iterator[Text]:
        training = self._training
        if not self._shows_steps():
            yield plain(self._last_words(), "dim")
            return
        yield from self._bar()
        yield from map(plain, training.words())
        if training.evaluation is not None:
            step, loss = training.evaluation
            yield plain(f"evaluation {quantity(loss, 'nats/token')} after step {step}")

    def _shows_steps(self) -> bool:
        """Whether the running stage has made a step of a known number."""
        return self._trains and self._training.step > 0 and bool(self._training.planned_steps)

    def _bar(self) -> Iterator[Text]:
        """How far the training is; only called when its number of steps is known."""
        training = self._training
        planned = training.planned_steps or 1
        if self._console.width >= WIDE:
            filled = round(BAR_WIDTH * min(1.0, training.step / planned))
            yield plain("\u2501" * filled, "cyan").append_text(plain("\u2501" * (BAR_WIDTH - filled), "dim"))
        yield plain(f"step {training.step}/{training.planned_steps}")

    def _last_words(self) -> str:
        """What the running stage printed last."""
        try:
            end = logs.end(self._run.logs / f"{self._current}.log", within=_LOG_BYTES)
        except OSError:
            return ""
        return next((line.strip() for line in reversed(end.lines) if line.strip()), "")


def _line(*words: Text) -> Text:
    """One line, cut where the terminal ends."""
    from rich.text import Text

    line = Text("  ").join(words)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _ended(line: Record) -> str:
    seconds = line.get("seconds")
    took = duration(seconds) if isinstance(seconds, (int, float)) else ""
    return took if line.get("exit_code") == 0 else f"{took}  {line.get('reason') or 'failed'}"
