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
        """By the wall clock, evaluation and saving included, but not the pause between two attempts."""
        if self.planned_steps is None or len(self._recent) < 2:
            return None
        own = statistics.median(seconds for _, seconds, _ in self._recent)
        gaps = [later - earlier for (earlier, *_), (later, *_) in pairwise(self._recent)]
        each = max(own, statistics.fmean(min(gap, LONGEST_GAP_STEPS * own) for gap in gaps))
        return each * (self.planned_steps - self.step)

    def words(self) -> list[str]:
        """The figures, in the order in which they are read."""
        words = []
        if self.loss is not None:
            words.append(f"loss {quantity(self.loss, 'nats/token')}")
        if self.tokens_per_second is not None:
            words.append(speed(self.tokens_per_second))
        if self.seconds_left:
            words.append(left(self.seconds_left))
        if self.evaluation is not None:
            words.append(f"evaluation {quantity(self.evaluation[1], 'nats/token')}")
        return words


def left(seconds: float) -> str:
    """How long the training still takes, in words."""
    return f"{duration(seconds, decimals=0)} left"


def stage_mark(exit_code: object) -> tuple[str, str]:
    """The sign and the colour of how a stage ended."""
    if exit_code == 0:
        return "\u2713", "green"
    return ("\u25a0", "yellow") if exit_code in (130, 143) else ("\u2717", "red")
