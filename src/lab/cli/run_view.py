"""How a run is shown while it happens: a live picture in a terminal, plain lines anywhere else."""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import TYPE_CHECKING

from lab.cli.output import console, plain
from lab.compare.formats import quantity

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from lab.launch.follow import View
    from lab.runs.directory import RunDirectory
    from lab.runs.records import Record

PLAIN_SECONDS = 5.0
RECENT_STEPS = 20
BAR_WIDTH = 16
_LOG_BYTES = 2000
_SPINNER = "\u280b\u2819\u2839\u2838\u283c\u2834\u2826\u2827\u2807\u280f"


def view(run: RunDirectory, planned_steps: int | None, *, quiet: bool) -> View:
    """The view that fits where standard error goes."""
    if quiet:
        return Silent()
    return Live(run, planned_steps) if sys.stderr.isatty() else Lines(planned_steps)


class Training:
    """What is known of the training so far: the latest figures, the speed, and the time that is left."""

    def __init__(self, planned_steps: int | None) -> None:
        self.planned_steps = planned_steps
        self.step = 0
        self.loss: float | None = None
        self.evaluation: tuple[int, float] | None = None
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=RECENT_STEPS)

    def hear(self, line: Record) -> None:
        """Take in one line of metrics.jsonl."""
        step, loss = line.get("step"), line.get("loss")
        if not isinstance(step, int) or not isinstance(loss, (int, float)):
            return
        if line.get("kind") == "evaluation":
            self.evaluation = (step, loss)
        elif line.get("kind") == "step":
            self.step, self.loss = step, loss
            figures = (line.get("time"), line.get("seconds"), line.get("targets"))
            if all(isinstance(figure, (int, float)) for figure in figures):
                self._recent.append(figures)  # type: ignore[arg-type]

    @property
    def tokens_per_second(self) -> float | None:
        """Of the latest steps, by the clock that leaves evaluation out."""
        seconds = sum(seconds for _, seconds, _ in self._recent)
        return sum(targets for _, _, targets in self._recent) / seconds if seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """By the wall clock, evaluation and saving included."""
        if self.planned_steps is None or len(self._recent) < 2:
            return None
        each = (self._recent[-1][0] - self._recent[0][0]) / (len(self._recent) - 1)
        return max(0.0, each * (self.planned_steps - self.step))

    def words(self) -> list[str]:
        """The figures, in the order in which they are read."""
        words = []
        if self.loss is not None:
            words.append(f"loss {quantity(self.loss, 'nats/token')}")
        if self.evaluation is not None:
            words.append(f"evaluation {quantity(self.evaluation[1], 'nats/token')}")
        if self.tokens_per_second is not None:
            words.append(f"{self.tokens_per_second:,.0f} tokens/s")
        return words


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
            self.notice(f"{line.get('stage')}: started")
        elif line.get("event") == "ended":
            self.notice(f"{line.get('stage')}: {_ended(line)}")

    def metric(self, line: Record) -> None:
        """Say every evaluation, and the first, the last and some other steps."""
        training = self._training
        training.hear(line)
        if line.get("kind") == "evaluation" and training.evaluation is not None:
            step, loss = training.evaluation
            self.notice(f"evaluation after step {step}: {quantity(loss, 'nats/token')}")
        elif line.get("kind") == "step":
            now = time.monotonic()
            if now - self._said >= PLAIN_SECONDS or training.step == training.planned_steps:
                self._said = now
                left = training.seconds_left
                rest = [f"{_clock(left)} left"] if left else []
                total = f"/{training.planned_steps}" if training.planned_steps else ""
                self.notice(f"step {training.step}{total}: {', '.join([*training.words(), *rest])}")


class Live:
    """Stages with their times, and under the running one a bar with the figures of the latest step."""

    def __init__(self, run: RunDirectory, planned_steps: int | None) -> None:
        from rich.live import Live as Region

        self._run = run
        self._training = Training(planned_steps)
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
            self._current, self._since = name, time.monotonic()
        elif line.get("event") == "ended":
            self._ended[name], self._current = line, None

    def metric(self, line: Record) -> None:
        """Take in a step or an evaluation."""
        self._training.hear(line)

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

    def _picture(self) -> Table:
        from rich.table import Table

        picture = Table.grid(padding=(0, 2, 0, 0))
        for _ in range(4):
            picture.add_column(no_wrap=True)
        picture.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, line in self._ended.items():
            good = line.get("exit_code") == 0
            mark = plain("\u2713", "green") if good else plain("\u2717", "red")
            picture.add_row(mark, plain(name), plain(_ended(line), "dim" if good else "red"), "", "")
        if self._current is not None:
            spinner = plain(_SPINNER[self._turn % len(_SPINNER)], "cyan")
            elapsed = plain(_clock(time.monotonic() - self._since), "dim")
            picture.add_row(spinner, plain(self._current, "bold"), elapsed, *self._progress())
        return picture

    def _progress(self) -> tuple[RenderableType, Text]:
        from rich.progress_bar import ProgressBar

        training = self._training
        if training.step == 0 or not training.planned_steps:
            return "", plain(self._last_words(), "dim")
        bar = ProgressBar(total=training.planned_steps, completed=training.step, width=BAR_WIDTH, complete_style="cyan")
        left = training.seconds_left
        words = [f"step {training.step}/{training.planned_steps}", *training.words()]
        return bar, plain("  ".join([*words, *([f"{_clock(left)} left"] if left else [])]))

    def _last_words(self) -> str:
        """What the running stage printed last."""
        try:
            with (self._run.logs / f"{self._current}.log").open("rb") as log:
                log.seek(max(0, os.fstat(log.fileno()).st_size - _LOG_BYTES))
                lines = log.read().decode("utf-8", "replace").replace("\r", "\n").split("\n")
        except OSError:
            return ""
        words = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return words[: max(10, self._console.width - 40)]


def _clock(seconds: float) -> str:
    """A time that is being counted: no more digits than the eye follows."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _ended(line: Record) -> str:
    seconds = line.get("seconds")
    took = _clock(seconds) if isinstance(seconds, (int, float)) else ""
    return took if line.get("exit_code") == 0 else f"{took}  {line.get('reason') or 'failed'}"
