"""Errors that a person reads: what is wrong, what to do, and the exit code of the command that met them.

LabError                1  the work failed
+-- UsageError          2  the input is wrong; nothing was done
+-- Refused             3  a required comparison does not hold
+-- Regression          4  a figure is worse than --fail-if allows
+-- StillBilling        5  a rented machine may still cost money
+-- Interrupted       130  Ctrl-C
+-- AskedToStop       143  SIGTERM, or the time limit: the worker finished its step and saved
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class LabError(Exception):
    """Something a person can act on: `what` is wrong and what to `do` about it."""

    exit_code = 1

    def __init__(self, what: str, do: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.do = do

    def __str__(self) -> str:
        return f"{self.what}\n{self.do}" if self.do else self.what


class UsageError(LabError):
    """The input is wrong; nothing was done."""

    exit_code = 2


class Refused(LabError):
    """Two runs may not be compared as the caller required."""

    exit_code = 3


class Regression(LabError):
    """A figure is worse than the caller allowed."""

    exit_code = 4


class StillBilling(LabError):
    """A rented machine could not be proved deleted: it may still cost money."""

    exit_code = 5


class Interrupted(LabError):
    """A person pressed Ctrl-C."""

    exit_code = 130


class AskedToStop(LabError):
    """SIGTERM arrived; the step in progress was finished and saved."""

    exit_code = 143


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Suggest the valid name nearest to `word`, or list all of them when none is near."""
    names = sorted(valid)
    near = get_close_matches(word, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean '{near[0]}'?"
    return f"Valid: {', '.join(names)}." if names else "There is none."
