"""Proof that a machine is gone: 404 alone is none, and neither is one listing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lab.rental.provider import Unreachable

if TYPE_CHECKING:
    from lab.rental.provider import Machine
    from lab.rental.rental import Rental

Sight = Literal["absent", "ending", "alive", "unknown"]


@dataclass
class Absence:
    """Counts answers in a row that say the same; any sign of life starts the count again."""

    rental: Rental
    machine_id: str
    not_found: int
    """How many 404 are needed."""
    unlisted: int
    """How many complete listings without it are needed."""
    seen_not_found: int = 0
    seen_unlisted: int = 0
    last: Machine | None = None

    @property
    def proved(self) -> bool:
        """Whether both kinds of evidence are complete."""
        return self.seen_not_found >= self.not_found and self.seen_unlisted >= self.unlisted

    def observe(self) -> Sight:
        """Ask once each way."""
        try:
            self.last = self.rental.look(self.machine_id)
        except Unreachable:
            return "unknown"
        if self.last is not None:
            self.seen_not_found = self.seen_unlisted = 0
            return "ending" if self.last.status == "terminated" else "alive"
        self.seen_not_found += 1
        try:
            listed = [machine for machine in self.rental.listing() if machine.id == self.machine_id]
        except Unreachable:
            return "absent"
        if listed:
            self.last = listed[0]
            self.seen_not_found = self.seen_unlisted = 0
            return "ending" if listed[0].status == "terminated" else "alive"
        self.seen_unlisted += 1
        return "absent"
