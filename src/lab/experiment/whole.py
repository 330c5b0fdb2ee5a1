"""The experiment as a whole: its tables together, and the rules that span them."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from lab.experiment.sections import (
    Batch,
    Checkpoint,
    Choice,
    Data,
    Environment,
    Evaluate,
    Limits,
    Model,
    Optimizer,
    Section,
    StageSection,
    Train,
)
from lab.experiment.sizes import impossible
from lab.experiment.values import MOST_NAME, Options, Pattern, Seed

TRAINING_KEYS = (
    "loop",
    "attention",
    "loss",
    "observers",
    "data",
    "model",
    "batch",
    "optimizer",
    "train",
    "evaluate",
    "checkpoint",
)
COMPUTING_KEYS = (
    "seed",
    "loop",
    "attention",
    "loss",
    "data",
    "model",
    "batch",
    "optimizer",
    "train",
    "evaluate",
    "environment",
    "stages",
)
MOST_DESCRIPTION = 10_000


class Experiment(Section):
    """Everything that decides what a run computes, and in which environment."""

    name: str
    description: str = Field(default="", max_length=MOST_DESCRIPTION)
    group: str | None = Field(default=None, max_length=MOST_NAME)
    seed: Seed = 42
    loop: Choice | None = None
    attention: Choice | None = None
    loss: Choice | None = None
    observers: dict[str, Options] = Field(default_factory=dict)
    trackers: dict[str, Options] = Field(default_factory=dict)
    data: Data | None = None
    model: Model | None = None
    batch: Batch | None = None
    optimizer: Optimizer | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    checkpoint: Checkpoint | None = None
    environment: Environment = Environment()
    limits: Limits = Limits()
    stages: tuple[StageSection, ...] = ()
    results: tuple[Pattern, ...] = ()

    @field_validator("observers", "trackers")
    @classmethod
    def _each_has_a_name(cls, parts: dict[str, Any]) -> dict[str, Any]:
        """The table's own key names the part; a name among its options would be another one, unheard."""
        for name, options in parts.items():
            if not 0 < len(name) <= MOST_NAME:
                raise ValueError(f"{name[:20]!r} is no name of a part")
            if isinstance(options, dict) and "name" in options:
                raise ValueError(f"{name} has a key 'name', but is a name already: remove the key")
        return parts

    @field_validator("observers")
    @classmethod
    def _only_wanted(cls, observers: dict[str, Any]) -> dict[str, Any]:
        """An observer switched off is none; a tracker switched off stays, because MLflow is on unless it says so."""
        return {name: options for name, options in observers.items() if options is not False}

    @model_validator(mode="after")
    def _trains_or_runs_commands(self) -> Self:
        present = [key for key in TRAINING_KEYS if getattr(self, key) not in (None, {})]
        if self.stages and present:
            raise ValueError(f"an experiment with [[stages]] has no {present[0]}: it runs commands, it does not train")
        if not self.stages and (self.loop is None or self.train is None):
            missing = "loop" if self.loop is None else "train"
            raise ValueError(f"{missing} is missing: an experiment trains (loop and [train]) or runs [[stages]]")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("two stages have the same name")
        return self

    @model_validator(mode="after")
    def _batch_fits(self) -> Self:
        if self.data and self.batch and self.batch.tokens is not None and self.batch.tokens < self.data.context:
            raise ValueError(
                f"batch.tokens {self.batch.tokens} cannot hold one segment of data.context {self.data.context}"
            )
        if self.data and self.evaluate and self.evaluate.tokens < self.data.context:
            raise ValueError(
                f"evaluate.tokens {self.evaluate.tokens} cannot hold one segment of data.context {self.data.context}"
            )
        return self

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if faults := list(impossible(self.data, self.model, self.batch, self.evaluate)):
            raise ValueError("; ".join(faults))
        return self
