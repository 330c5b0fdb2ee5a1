"""The figures of a training while it runs, from the lines of metrics.jsonl heard so far."""

from __future__ import annotations

import statistics
from collections import deque
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.compare.formats import duration, quantity, speed

if TYPE_CHECKING:
    from lab.runs.records import Record

RECENT_STEPS = 20
LONGEST_GAP_STEPS = 10


class Training:
    """What is known of the training of this attempt: the latest figures, the speed, and the time that is left."""

    def __init__(self, planned_steps: int | None) -> None:
        self.planned_steps = planned_steps
        self._begun: set[object] = set()
        self._since = 0.0
        self._forget()

    def _forget(self) -> None:
        self.step = 0
        self.loss: float | None = None
        self.evaluation: tuple[int, float] | None = None
        self._recent: deque[tuple[float, float, float]] = deque(maxlen=RECENT_STEPS)

    def begin(self, stage: Record) -> None:
        """Take in the start of a stage: the first of an attempt, as one that began already shows, leaves all behind."""
        if not self._begun or stage.get("stage") in self._begun:
            self._begun.clear()
            unix = stage.get("unix")
            self._since = unix if isinstance(unix, (int, float)) else 0.0
            self._forget()
        self._begun.add(stage.get("stage"))

    def hear(self, line: Record) -> bool:
        """Take in one line of metrics.jsonl; False for one that an earlier attempt left or that says nothing."""
        step, loss, time = line.get("step"), line.get("loss"), line.get("time")
        if not self._begun or (isinstance(time, (int, float)) and time < self._since):
            return False
        if not isinstance(step, int) or not isinstance(loss, (int, float)):
            return False
        if line.get("kind") == "evaluation":
            self.evaluation = (step, loss)
        elif line.get("kind") == "step":
            self.step, self.loss = step, loss
            figures = (line.get("time"), line.get("seconds"), line.get("targets"))
            if all(isinstance(figure, (int, float)) for figure in figures):
                self._recent.append(figures)  # type: ignore[arg-type]
        return True

    @property
    def tokens_per_second(self) -> float | None:
        """Of the latest steps, by the clock that leaves evaluation out."""
        seconds = sum(seconds for _, seconds, _ in self._recent)
        return sum(targets for _, _, targets in self._recent) / seconds if seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """By the wall clock, evaluation and saving included, but not the pause between two attempts."""
        if self.planned_steps is None or len(self._recent) < 2:
            return None
        own = statistics.median(seconds for _, seconds, _ in self._recent)
        gaps = [later - earlier for (earlier, *_), (later, *_) in pairwise(self._recent)]
        each = max(own, statistics.fmean(min(gap, LONGEST_GAP_STEPS * own) for gap in gaps))
        return each * (self.planned_steps - self.step)

    def words(self) -> list[str]:
        """The figures of the latest step, in the order in which they are read."""
        words = []
        if self.loss is not None:
            words.append(f"loss {quantity(self.loss, 'nats/token')}")
        if self.tokens_per_second is not None:
            words.append(speed(self.tokens_per_second))
        if self.seconds_left:
            words.append(left(self.seconds_left))
        return words


def left(seconds: float) -> str:
    """How long the training still takes, in words."""
    return f"{duration(seconds, decimals=0)} left"


def stage_mark(exit_code: object) -> tuple[str, str]:
    """The sign and the colour of how a stage ended."""
    if exit_code == 0:
        return "\u2713", "green"
    return ("\u25a0", "yellow") if exit_code in (130, 143) else ("\u2717", "red")
