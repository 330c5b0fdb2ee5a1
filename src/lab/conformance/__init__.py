"""The kit that proves that a part keeps its contract: one check for each kind, on any device.

In a test, ask for the fixture `check_attention` (or `check_loss`, `check_loop`, `check_observer`, `check_tracker`,
`check_source`, `check_backend`); elsewhere import it from `lab.conformance.attention` and so on. A check returns when
the contract is kept and raises `ContractBroken`, which says what was expected and what was found, when it is not.
"""

from __future__ import annotations


class ContractBroken(AssertionError):
    """The part does something that its contract in `lab.contracts` excludes."""


def require(holds: object, sentence: str) -> None:
    """Raise `ContractBroken` with the sentence unless `holds`."""
    if not holds:
        raise ContractBroken(sentence)


__all__ = ["ContractBroken", "require"]
