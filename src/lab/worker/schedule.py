"""What is due after which step: the experiment's own rhythm, the same in every attempt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.experiment import Experiment


@dataclass(frozen=True)
class Schedule:
    """What is due after which step."""

    steps: int
    warmup_steps: int = 0
    evaluate_every: int | None = None
    evaluate_before: bool = False
    save_every: int | None = None

    @classmethod
    def of(cls, experiment: Experiment) -> Schedule:
        """As the experiment says."""
        train, evaluate, checkpoint = experiment.train, experiment.evaluate, experiment.checkpoint
        assert train is not None
        return cls(
            train.steps,
            train.warmup_steps,
            evaluate.every if evaluate else None,
            evaluate.before_training if evaluate else False,
            checkpoint.every if checkpoint else None,
        )

    def evaluates(self, step: int) -> bool:
        """Whether the weights after `step` are evaluated."""
        return self.evaluate_before if step == 0 else _every(self.evaluate_every, step)

    def saves(self, step: int) -> bool:
        """Whether a checkpoint is written after `step`: on schedule, and after the last one."""
        return _every(self.save_every, step) or (self.save_every is not None and step == self.steps)


def _every(steps: int | None, step: int) -> bool:
    return steps is not None and step % steps == 0
