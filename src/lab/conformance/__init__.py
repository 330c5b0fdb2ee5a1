"""The kit that proves that a part keeps its contract: one check for each kind, on any device.

In a test, ask for the fixture `check_attention` (or `check_loss`, `check_loop`, `check_observer`, `check_tracker`,
`check_source`, `check_backend`); elsewhere import it from `lab.conformance.attention` and so on. A check returns when
the contract is kept and raises `ContractBroken`, which says what was expected and what was found, when it is not.

The fixture `lab_project` makes a project folder of its own the working directory. A test of one's own builds a loop or
starts an observer with `listening_context(folder, heard)`; `Heard` keeps what it says. Whoever tests a `Provider` lets
a fake of its cloud boot a `StandIn` for each machine, and hurries the backend with a `ScaledClock`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.conformance.clock import ScaledClock
    from lab.conformance.context import Heard, listening_context
    from lab.conformance.machine import StandIn

_LATER = {"Heard": "context", "ScaledClock": "clock", "StandIn": "machine", "listening_context": "context"}
"""What only some tests need, imported when it is asked for, by the module that it lives in."""


class ContractBroken(AssertionError):
    """The part does something that its contract in `lab.contracts` excludes."""


def require(holds: object, sentence: str) -> None:
    """Raise `ContractBroken` with the sentence unless `holds`."""
    if not holds:
        raise ContractBroken(sentence)


def __getattr__(name: str) -> object:
    if name in _LATER:
        return getattr(importlib.import_module(f"lab.conformance.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["ContractBroken", "Heard", "ScaledClock", "StandIn", "listening_context", "require"]
