"""Which plugin an exception comes from, so that a failed run names the package to report or to uninstall."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from lab.plugins.containing import words
from lab.plugins.files import places
from lab.plugins.interrupts import Unprompted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.plugins.discovery import Plugin


def told(error: BaseException, installed: Sequence[Plugin]) -> str:
    """The exception in one line, with the plugin in whose code it was raised."""
    where = place(error, installed)
    return f"{plainly(error)} ({where})" if where else plainly(error)


def plainly(error: BaseException) -> str:
    """The exception in one short line."""
    said = words(error)
    return said if isinstance(error, Unprompted) else f"{type(error).__name__}: {said}".rstrip(": ")


def place(error: BaseException, installed: Sequence[Plugin]) -> str:
    """As `in plugin acme (lab-acme 1.0), loss.py:12`, with the plugin that called it; empty when none had a part in it.

    The innermost plugin is named first: what it calls, such as a library, only raised because it was called so.
    """
    involved: dict[str, str] = {}
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        plugin = _of(Path(frame.filename), installed)
        if plugin is not None:
            involved.setdefault(plugin.name, f"plugin {plugin.name} ({plugin.owner}), {_short(frame)}")
    return f"in {', called by '.join(involved.values())}" if involved else ""


def _of(file: Path, installed: Sequence[Plugin]) -> Plugin | None:
    """The plugin that the file belongs to; nothing is imported to find out."""
    for plugin in installed:
        if plugin.state == "loaded" and any(file == top or top in file.parents for top in places(plugin)):
            return plugin
    return None


def _short(frame: traceback.FrameSummary) -> str:
    return f"{Path(frame.filename).name}:{frame.lineno}"
