"""What an experiment may say about `profiler`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, field_validator

MOST_STEPS = 20
"""One trace stays one that a viewer opens."""


class ProfilerOptions(BaseModel):
    """Which steps are traced, and how much of each call is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: tuple[PositiveInt, ...] = Field(min_length=1, max_length=MOST_STEPS)
    stacks: bool = False
    """Python stacks: many times the size, and a slower step."""
    shapes: bool = False
    memory: bool = False

    @field_validator("steps")
    @classmethod
    def _in_order(cls, steps: tuple[int, ...]) -> tuple[int, ...]:
        if len(set(steps)) != len(steps):
            raise ValueError(f"a step stands twice in {list(steps)}")
        return tuple(sorted(steps))
