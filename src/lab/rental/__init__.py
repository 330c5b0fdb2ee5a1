"""Rented machines, from intent to proven deletion, on any cloud that has a `Provider`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental.options import RentalOptions
from lab.rental.provider import Provider

if TYPE_CHECKING:
    from lab.rental.backend import RentedBackend

__all__ = ["Provider", "RentalOptions", "RentedBackend"]


def __getattr__(name: str) -> object:
    """Import the backend when it is asked for: checking a cloud's options needs no HTTP client."""
    if name == "RentedBackend":
        from lab.rental.backend import RentedBackend

        return RentedBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
