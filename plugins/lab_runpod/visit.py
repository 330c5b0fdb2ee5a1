"""One visit to a rented Pod: asking it, waiting for what shall become true, and keeping what was found."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import httpx

from lab.rental.provider import CheckResult, ProviderError
from lab_runpod.client import USER_AGENT

if TYPE_CHECKING:
    from collections.abc import Callable

    from lab.rental.clock import Clock
    from lab.rental.provider import Provider

PORT = 8765


@dataclass
class Visit:
    """What all measurements share."""

    provider: Provider
    clock: Clock
    say: Callable[[str], None]
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))
    results: list[CheckResult] = field(default_factory=list)
    until: float = float("inf")
    """When measuring must end, whatever is left, because the Pod costs money."""

    @property
    def token_sha256(self) -> str:
        """All that the cloud learns of the token."""
        return hashlib.sha256(self.token.encode()).hexdigest()

    def note(self, name: str, passed: bool, detail: str) -> None:
        """Keep one result and say it."""
        self.results.append(CheckResult(name, passed, detail))
        self.say(f"{'ok  ' if passed else 'FAIL'} {name}: {detail}")

    def measure(self, name: str, question: Callable[[], tuple[bool, str]]) -> None:
        """Keep what a question to the Pod finds; an answer that never comes, or is another's, is a finding too."""
        try:
            passed, detail = question()
        except (httpx.HTTPError, ValueError, KeyError) as error:
            passed, detail = False, f"{type(error).__name__}: {error}"
        self.note(name, passed, detail)

    def check(self) -> None:
        """Raise when the time that was paid for is over."""
        if self.clock.monotonic() > self.until:
            raise ProviderError("the time for measuring is over")

    def timed(self, check: Callable[[], bool], limit: float) -> float | None:
        """Seconds until a check holds; None when it does not within the limit."""
        began = self.clock.monotonic()
        while True:
            try:
                if check():
                    return self.clock.monotonic() - began
            except ProviderError as error:
                self.say(f"asked again: {error}")
            if self.clock.monotonic() - began > limit:
                return None
            self.clock.sleep(1)

    def ask(
        self, pod_id: str, method: str, path: str, headers: dict[str, str] | None = None, **content: Any
    ) -> httpx.Response:
        """One request to the probe through the proxy."""
        url = self.provider.agent_url(pod_id, PORT) + path
        named = {"User-Agent": USER_AGENT, "Authorization": f"Bearer {self.token}", **(headers or {})}
        trust = not url.startswith("http://")
        return httpx.request(
            method, url, headers=named, timeout=httpx.Timeout(120, connect=10), trust_env=trust, **content
        )


def seconds(value: float | None) -> str:
    """As a person reads it."""
    return "never" if value is None else f"{value:.0f} s"
