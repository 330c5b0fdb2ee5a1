"""Rented machines, from intent to proven deletion, on any cloud that has a `Provider`.

Everything that the author of a provider needs is here; the modules below are lab's own affair.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.jobs import Needs
from lab.rental.options import RentalOptions
from lab.rental.provider import (
    Candidate,
    CheckResult,
    Conflict,
    CreateRequest,
    Forbidden,
    Gone,
    LiveCheck,
    Machine,
    NoCapacity,
    NoCredit,
    NoSecondWay,
    NotAuthorized,
    NotFound,
    Provider,
    ProviderError,
    RateLimited,
    RequestRejected,
    SelfStop,
    Status,
    UncertainOutcome,
    Unreachable,
)
from lab.settings import variable

if TYPE_CHECKING:
    from lab.rental.backend import RentedBackend

__all__ = [
    "Candidate",
    "CheckResult",
    "Conflict",
    "CreateRequest",
    "Forbidden",
    "Gone",
    "LiveCheck",
    "Machine",
    "Needs",
    "NoCapacity",
    "NoCredit",
    "NoSecondWay",
    "NotAuthorized",
    "NotFound",
    "Provider",
    "ProviderError",
    "RateLimited",
    "RentalOptions",
    "RentedBackend",
    "RequestRejected",
    "SelfStop",
    "Status",
    "UncertainOutcome",
    "Unreachable",
    "variable",
]


def __getattr__(name: str) -> object:
    """Import the backend when it is asked for: checking a cloud's options needs no HTTP client."""
    if name == "RentedBackend":
        from lab.rental.backend import RentedBackend

        return RentedBackend
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
