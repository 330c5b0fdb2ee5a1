"""What a person may choose about the machine beyond the experiment's `[environment]`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from lab.rental.options import RentalOptions


class RunPodOptions(RentalOptions):
    """None of it changes what a run computes."""

    clouds: tuple[Literal["SECURE", "COMMUNITY"], ...] = Field(default=("SECURE",), min_length=1)
    """Which tiers are looked at. Network volumes exist only in the secure cloud."""
    data_centers: tuple[str, ...] = ()
    """Only these, in capitals as the catalogue has them; empty admits all."""
    registry: str | None = None
    """The id of the account's credential for a private image."""
