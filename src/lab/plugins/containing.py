"""Code of plugins, run so that it moves nothing of ours: not the folder, not standard output, not the exit code."""

from __future__ import annotations

import sys
import threading
import traceback
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Literal

from lab.errors import LabError
from lab.here import staying
from lab.plugins.interrupts import Unprompted, told_apart

if TYPE_CHECKING:
    from collections.abc import Iterator

State = Literal["loaded", "blocked", "incompatible", "broken"]
"""Of a plugin."""
LONGEST = 500
"""Characters of an exception's text: a line that a person reads, whatever a plugin puts into it."""


class Unusable(Exception):
    """Why one plugin cannot be loaded; `discovery` alone raises and catches it."""

    state: State = "broken"


class BrokenPart(LabError):
    """A plugin offers the part, but its class or its options cannot be loaded, checked or built."""


@contextmanager
def contained() -> Iterator[list[str]]:
    """Come back to the folder, print to standard error alone, raise `Unprompted` for a KeyboardInterrupt of its own.

    Yields what `staying` does. What a plugin prints must not end up in somebody's JSON.
    """
    with staying() as moved, _quiet(), told_apart():
        yield moved


@contextmanager
def blamed(what: str, do: str) -> Iterator[None]:
    """As `contained`; raise `BrokenPart` for whatever is raised but errors of lab and a person's Ctrl-C.

    A SystemExit would otherwise pass for a command that succeeded.
    """
    try:
        with contained():
            yield
    except (LabError, KeyboardInterrupt):
        raise
    except BaseException as error:  # a plugin's code may do anything
        raise BrokenPart(f"{what}: {reason(error)}", do) from error


def one_line(text: str) -> str:
    """The text in one line, cut where nobody reads on."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def reason(error: BaseException) -> str:
    """An exception in one line, as listings show it."""
    text = str(error) if isinstance(error, (Unusable, Unprompted)) else "".join(traceback.format_exception_only(error))
    return one_line(text)


def words(error: BaseException) -> str:
    """What the exception says, in one short line, whatever its own code makes of being asked."""
    try:
        return one_line(str(error))
    except BaseException:  # its text is a plugin's code as well
        return "(its text cannot be had)"


@contextmanager
def _quiet() -> Iterator[None]:
    """Only the main thread redirects: of two threads, the later one would put back the other's redirection."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with redirect_stdout(sys.stderr):
        yield
