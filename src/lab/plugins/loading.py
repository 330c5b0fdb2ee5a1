"""From a part's target to its class and its instance; whatever goes wrong there names the plugin."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lab.errors import UsageError
from lab.plugins import needs
from lab.plugins.containing import BrokenPart, blamed, contained, reason

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lab.hookspecs import Part
    from lab.plugins.discovery import Plugin


class UnknownPart(UsageError):
    """No installed plugin offers a part of this name, or two do."""


class MissingLibrary(BrokenPart):
    """The part needs a library that is not installed."""


def imported(kind: str, plugin: Plugin, part: Part, target: str) -> Any:
    """What `target` names, imported now. Raises `BrokenPart`, or `MissingLibrary` with the command that brings it."""
    module, _, attribute = target.partition(":")
    try:
        with contained():
            return getattr(importlib.import_module(module), attribute)
    except KeyboardInterrupt:
        raise
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in ("", module.partition(".")[0]):
            raise BrokenPart(f"{owned(kind, plugin, part)} cannot be loaded: {error}", report(plugin)) from error
        what = f"{owned(kind, plugin, part)} needs {missing}, which is not installed"
        raise MissingLibrary(what, _install(plugin, part, missing)) from error
    except BaseException as error:  # a part's module may do anything, SystemExit included
        what = f"{owned(kind, plugin, part)} cannot be loaded: {reason(error)}"
        raise BrokenPart(what, report(plugin)) from error


def built(kind: str, plugin: Plugin, part: Part, options: BaseModel | None) -> Any:
    """The part: its class called with its options. Raises `BrokenPart` for a class that raises anything of its own."""
    make = imported(kind, plugin, part, part.target)
    with blamed(f"{owned(kind, plugin, part)} cannot be built", report(plugin)):
        return make(options)


def owned(kind: str, plugin: Plugin, part: Part) -> str:
    """The part with the plugin and the distribution that it comes from, as errors name it."""
    return f"the {kind} '{part.name}' of plugin {plugin.name} ({plugin.owner})"


def report(plugin: Plugin) -> str:
    """What to do about a part that is its plugin's fault."""
    return f"Reinstall or report {plugin.distribution}, or choose another."


def _install(plugin: Plugin, part: Part, library: str) -> str:
    if part.extra is None:
        return f"Install the package that provides {library}."
    return f"Run: {needs.command(plugin, part)}"
