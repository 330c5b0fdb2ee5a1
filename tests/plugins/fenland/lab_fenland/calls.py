"""Fenland's one address: every call is a POST, and every answer is a 200 that says whether it is fine."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx

from lab.rental import (
    Conflict,
    Forbidden,
    Gone,
    NoCapacity,
    NoCredit,
    NotAuthorized,
    NotFound,
    ProviderError,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
    variable,
)

API = "https://api.fenland.example/call"
PASS, ADDRESS = "FENLAND_PASS", "FENLAND_API"
MEANINGS: dict[str, type[ProviderError]] = {
    "SOLD_OUT": NoCapacity,
    "BAD_ORDER": RequestRejected,
    "WHO_ARE_YOU": NotAuthorized,
    "NOT_FOR_YOU": Forbidden,
    "EMPTY_PURSE": NoCredit,
    "OLD_TONGUE": Gone,
    "NO_SUCH_BOX": NotFound,
    "WRONG_PHASE": Conflict,
}


class Calls:
    """Makes one request a call. `changing` says that it would change something, so that a lost answer is a doubt."""

    def __init__(self) -> None:
        self.address = variable(ADDRESS) or API
        self._pass = variable(PASS) or ""
        # None is kept open: a connection that died idle would make a launch uncertain for nothing.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._http = httpx.Client(timeout=30.0, limits=limits, trust_env=self.address.startswith("https"))

    def fingerprint(self) -> str:
        """Tells two passes apart without showing one."""
        if not self._pass:
            raise NotAuthorized(f"{PASS} is not set: make a pass in the console and put it in .env")
        return hashlib.sha256(self._pass.encode()).hexdigest()[:16]

    def make(self, what: str, /, changing: bool = False, **given: Any) -> Any:
        """The result of a call. Raises the `ProviderError` that its fault stands for."""
        self.fingerprint()
        doubt = UncertainOutcome if changing else Unreachable
        try:
            answer = self._http.post(
                self.address, json={"do": what, "with": given}, headers={"X-Fenland-Pass": self._pass}
            )
            said = answer.raise_for_status().json()
            if said["fine"]:
                return said["result"]
            fault = said["fault"]
            word, says, ticket = fault["word"], str(fault["says"]), str(fault.get("ticket", ""))
        except httpx.ConnectError as error:
            raise Unreachable(f"{what}: {error}") from error
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            raise doubt(f"{what}: {type(error).__name__}: {error}") from error
        if word == "SLOW_DOWN":
            raise RateLimited(says, float(fault.get("wait_ms", 10_000)) / 1000, ticket)
        raise MEANINGS.get(word, doubt)(f"{word}: {says}", ticket)
