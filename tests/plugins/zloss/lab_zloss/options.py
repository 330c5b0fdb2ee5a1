"""What an experiment may say about `z-loss`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class ZLossOptions(BaseModel):
    """Nothing unknown gets in."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    weight: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    """What a squared log Z costs."""
