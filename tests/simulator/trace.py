"""The trace: every request that reached the cloud, and every event in the life of a Pod."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass
class Exchange:
    """One request and its answer; `status` 0 means that the connection was cut instead."""

    number: int
    time: float
    where: str
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str = ""
    pod: str | None = None
    status: int = 0
    fault: str = ""
    answered: float = 0.0
    sent: int = 0
    """Bytes of the answer that were passed on, for the proxy."""


@dataclass
class Event:
    """Something that happened to a Pod without a request."""

    time: float
    pod: str
    what: str


@dataclass
class Trace:
    """Everything that happened, in order."""

    exchanges: list[Exchange] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Where the simulator's own answers broke the specification: a bug of the simulator."""

    def open(self, **fields: Any) -> Exchange:
        """Record a request as it arrives."""
        exchange = Exchange(number=len(self.exchanges) + 1, **fields)
        self.exchanges.append(exchange)
        return exchange

    def requests(self, method: str, path: str, where: str = "api") -> list[Exchange]:
        """The requests of one method whose path ends as given."""
        return [e for e in self.exchanges if e.where == where and e.method == method and e.path.endswith(path)]

    def record(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)
