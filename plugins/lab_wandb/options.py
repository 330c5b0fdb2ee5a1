"""What an experiment says about its mirror in W&B."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict


class WandbOptions(BaseModel):
    """None of it changes what a run computes."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    forwards: ClassVar[tuple[str, ...]] = ("WANDB_API_KEY", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_BASE_URL")
    """The variables that the process beside the worker needs."""

    where: Literal["launch", "worker"] = "launch"
    """Where the mirror is kept while the run goes on: here, or beside the worker if its key was forwarded."""
    project: str | None = None
    """Otherwise WANDB_PROJECT, otherwise llm-training-lab."""
    entity: str | None = None
    """Otherwise WANDB_ENTITY, otherwise the key's own."""
    artifacts: tuple[str, ...] = ("figure", "json", "table")
    """Which kinds of the run's artifacts are uploaded when it has ended."""
