"""What the `pretrain` loop needs from an experiment; it has no options of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.experiment import Experiment
    from lab.experiment.sections import Batch, Data, Model, Optimizer, Train


class PretrainOptions(BaseModel):
    """None."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    requires: ClassVar[tuple[str, ...]] = ("data", "model", "batch", "optimizer", "attention", "loss")


@dataclass(frozen=True)
class Sections:
    """The sections of an experiment that this loop reads, each of them there."""

    data: Data
    model: Model
    batch: Batch
    optimizer: Optimizer
    train: Train

    @classmethod
    def of(cls, experiment: Experiment) -> Sections:
        """Raise `UsageError` unless all are there, which `lab check` has found out long before."""
        data, model, batch = experiment.data, experiment.model, experiment.batch
        optimizer, train = experiment.optimizer, experiment.train
        if data is None or model is None or batch is None or optimizer is None or train is None:
            raise UsageError(f"{experiment.name}: the loop 'pretrain' needs {', '.join(PretrainOptions.requires)}")
        return cls(data, model, batch, optimizer, train)
