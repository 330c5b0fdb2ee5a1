"""What a person may choose about a box."""

from __future__ import annotations

from lab.rental import RentalOptions


class FenlandOptions(RentalOptions):
    """The limits that every rented machine has, and where the box may stand."""

    sites: tuple[str, ...] = ()
    """Only these; empty admits all."""
