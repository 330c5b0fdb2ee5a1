"""Faults to order: which request they hit, and what becomes of it."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from typing import Any, Literal

Effect = Literal["answer", "reset", "delay", "cut", "truncate", "flip", "slow", "gzip", "patch"]


@dataclass
class Fault:
    """One fault. Without `rate` it hits the `first` matching request and `times - 1` more (None: all that follow)."""

    effect: Effect
    where: Literal["api", "proxy"] = "api"
    method: str | None = None
    path: str = ""
    """A regular expression searched in the path (below the Pod's port, for the proxy)."""
    pod: str | None = None
    first: int = 1
    times: int | None = 1
    rate: float | None = None
    """Hit each matching request with this probability instead of by count; the simulator's seed decides."""
    applied: bool = False
    """answer, reset and delay: let the request take effect first."""
    direction: Literal["request", "response"] = "response"
    """cut, flip, slow: which body."""
    offset: int = 0
    """cut, truncate, flip: at which byte."""
    seconds: float = 0.0
    """delay: for how long."""
    bytes_per_second: float = 1024.0
    """slow: at which rate, in simulated seconds."""
    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    """answer: the body as it is sent; without one it is the cloud's own JSON problem, or its proxy's HTML page."""
    change: dict[str, Any] = field(default_factory=dict)
    """patch: keys of the JSON answer to set; a value of "ABSENT" removes the key."""
    name: str = ""
    matched: int = 0
    fired: int = 0

    def hits(self, where: str, method: str, path: str, pod: str | None, dice: random.Random) -> bool:
        """Count the request if it matches, and say whether this fault hits it."""
        if where != self.where or (self.method and method != self.method):
            return False
        if (self.pod and pod != self.pod) or not re.search(self.path, path):
            return False
        self.matched += 1
        if self.rate is not None:
            hit = dice.random() < self.rate
        else:
            hit = self.matched >= self.first and (self.times is None or self.matched < self.first + self.times)
        self.fired += hit
        return hit


class Faults:
    """The faults that are armed now."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.armed: list[Fault] = []

    def arm(self, fault: Fault) -> Fault:
        """Arm one more; the first armed one that hits a request decides."""
        self.armed.append(fault)
        return fault

    def disarm(self) -> None:
        """Cure everything."""
        self.armed.clear()

    def choose(self, where: str, method: str, path: str, pod: str | None) -> Fault | None:
        """The fault that hits this request, if any."""
        for fault in self.armed:
            if fault.hits(where, method, path, pod, self.dice):
                return fault
        return None
