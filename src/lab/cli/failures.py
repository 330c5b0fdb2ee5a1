"""What a person sees when a command fails: what is wrong, then what to do; a traceback only when asked for."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from lab.errors import LabError


def show_warnings() -> None:
    """Let what the rooms below warn of appear on standard error, in one form."""
    import logging

    from lab.cli.output import warn

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            warn(record.getMessage())

    ours = logging.getLogger("lab")
    ours.handlers = [handler for handler in ours.handlers if type(handler).__name__ != Shown.__name__] + [Shown()]


def explain(error: Exception) -> int:
    """Say on standard error why the command failed, and return its exit code."""
    debug = _debug()
    if debug:
        traceback.print_exception(error)
    if isinstance(error, LabError):
        _write(error.what, error.do)
        return error.exit_code
    if isinstance(error, (FileExistsError, NotADirectoryError)) and (blocked := _in_the_way(error)):
        _write(f"{error.filename}: no folder can be there: {blocked} is not a folder", "Move it away.")
        return 1
    if isinstance(error, OSError) and error.strerror:
        _write(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
        return 1
    from lab.plugins.containing import words

    reason = ": ".join(filter(None, [f"{type(error).__name__}{_place(error)}", words(error)]))
    _write(
        f"this is a bug in {_plugin(error) or 'lab or in a plugin'}, not in what you typed: {reason}",
        "" if debug else "Set LAB_DEBUG=1 to see the traceback, and report it with the command.",
    )
    return 1


def _in_the_way(error: OSError) -> Path | None:
    from lab.runs.new_folder import in_the_way

    return in_the_way(Path(os.fsdecode(error.filename))) if isinstance(error.filename, (str, bytes)) else None


def _debug() -> bool:
    from lab.settings import read_settings

    try:
        return read_settings().debug
    except LabError:  # the settings themselves are what is wrong
        return False


def _plugin(error: Exception) -> str:
    """The stranger's plugin that raised, as `plugin acme (lab-acme 1.0)`; empty when none did."""
    from lab.plugins import Plugins, blame
    from lab.settings import read_settings

    try:
        strangers = [one for one in Plugins(read_settings().blocked_plugins).installed if one.third_party]
    except LabError:  # as above
        return ""
    return blame.place(error, strangers).removeprefix("in ")


def _place(error: Exception) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    path = Path(frames[-1].filename)
    return f" in {path.parent.name}/{path.name}:{frames[-1].lineno}"


def _write(what: str, do: str = "") -> None:
    from lab.cli.output import error_line, near

    error_line(near(what), near(do))
