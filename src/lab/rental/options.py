"""What a person may choose about renting, on any cloud; a cloud's own options extend it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from lab.experiment.values import MOST_DOLLARS, MOST_HOURS

MOST_MINUTES = 60 * MOST_HOURS


class RentalOptions(BaseModel):
    """Given as `backend = { name = "...", ... }` or by the flags of `lab run`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_price: float | None = Field(default=None, gt=0, le=MOST_DOLLARS, allow_inf_nan=False)
    """The most that an hour may cost, in dollars; a machine that turns out dearer is deleted at once."""
    max_cost: float | None = Field(default=None, gt=0, le=MOST_DOLLARS, allow_inf_nan=False)
    """The most that a run may cost, in dollars; near it the job is asked to save, at it the machine is stopped."""
    keep: bool = False
    """Stop the machine at the end and keep its disk, instead of deleting it."""
    ready_minutes: float = Field(default=20.0, gt=0, le=MOST_MINUTES, allow_inf_nan=False)
    """How long a machine may take until its agent answers, image pull included."""
    lease_minutes: float = Field(default=15.0, gt=0, le=MOST_MINUTES, allow_inf_nan=False)
    """How long a machine that does no work lives without hearing from us before it stops itself."""
    running_lease_minutes: float | None = Field(default=None, gt=0, le=MOST_MINUTES, allow_inf_nan=False)
    """The same while the job runs; by default as long as the job may take, so that closing the laptop harms no run."""
