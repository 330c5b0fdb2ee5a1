"""The agent of a machine, found when it is first spoken to: some clouds know an address only once the machine is up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from lab.rental.agent_client import LOOPBACK
from lab.rental.agent_contract import Agent, AgentUnreachable
from lab.rental.provider import ProviderError

if TYPE_CHECKING:
    from collections.abc import Callable


class Readable(Exception):
    """The way to the machine is open to others, who could read the token and the results on it."""


def reached(address: Callable[[], str], connect: Callable[[str], Agent]) -> Agent:
    """An agent whose calls find the address first; while there is none it is as silent as a machine that boots.

    Raises `Readable` at the first call when the address is plain HTTP to another machine.
    """
    return cast("Agent", _Reached(address, connect))


class _Reached:
    """Keeps the agent that it found; a new one is asked for at each look, so a moved machine is found again."""

    def __init__(self, address: Callable[[], str], connect: Callable[[str], Agent]) -> None:
        self._address, self._connect = address, connect
        self._agent: Agent | None = None

    def __getattr__(self, name: str) -> Any:
        def ask(*given: Any, **named: Any) -> Any:
            return getattr(self._found(), name)(*given, **named)

        return ask

    def _found(self) -> Agent:
        if self._agent is None:
            try:
                url = self._address()
            except ProviderError as error:
                raise AgentUnreachable(f"the cloud gives no address for it: {error.message}") from error
            parts = urlsplit(url)
            if parts.scheme == "http" and parts.hostname not in LOOPBACK:
                raise Readable(f"{url} is neither https nor on this machine: the token of this run could be read")
            self._agent = self._connect(url)
        return self._agent
