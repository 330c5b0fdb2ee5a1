"""What an experiment may say about `activation-sizes`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, PositiveInt


class Options(BaseModel):
    """Nothing unknown gets in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: tuple[PositiveInt, ...] = Field(default=(1,), min_length=1)
    """Which steps are looked at; each is a little slower for it."""
    layer: str = "Linear"
    """The name of the class whose outputs are measured."""
