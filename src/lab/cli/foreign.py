"""Commands that plugins add by the entry-point group `lab.commands`: found by name, imported only when called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from lab.errors import LabError
from lab.hookspecs import COMMANDS_GROUP
from lab.plugins.entries import Entry, entries

if TYPE_CHECKING:
    from collections.abc import Iterator


class BrokenCommand(LabError):
    """A plugin's command cannot be loaded."""


def find_command(name: str) -> Any:
    """The command that a plugin registered as `name`, or None.

    Raises `BrokenCommand` with the reason when it is registered but cannot be loaded.
    """
    found = [entry for entry in _readable() if entry.name == name]
    if not found:
        return None
    if len(found) > 1:
        owners = " and ".join(sorted({entry.owner for entry in found}))
        raise BrokenCommand(f"two plugins offer the command '{name}': {owners}.", "Uninstall one of them.")
    return _loaded(found[0])


def listed() -> list[dict[str, str]]:
    """Every command that a plugin registered, and who did; nothing is imported."""
    found = [{"name": entry.name, "from": entry.owner} for entry in _readable()]
    return sorted(found, key=lambda command: (command["name"], command["from"]))


def unreachable() -> Iterator[str]:
    """Say of each command of a plugin that nobody can call why not."""
    from lab.cli import COMMANDS, GROUPS

    owners: dict[str, list[str]] = {}
    for command in listed():
        owners.setdefault(command["name"], []).append(command["from"])
    for name, offered in owners.items():
        if name in (*COMMANDS, *GROUPS):
            yield f"command '{name}' of {' and '.join(offered)} is never called: lab has one of this name"
        elif len(offered) > 1:
            yield f"command '{name}' is offered twice, so it cannot be used: {' and '.join(offered)}"
    for entry in entries(COMMANDS_GROUP):
        if entry.point is None:
            yield f"the commands of {entry.owner} cannot be found: {entry.fault}"


def _readable() -> list[Entry]:
    return [entry for entry in entries(COMMANDS_GROUP) if entry.point is not None]


def _loaded(entry: Entry) -> Any:
    from lab.plugins import reason, told_apart

    try:
        with told_apart():
            if entry.point is None or entry.fault:
                raise ValueError(entry.fault)
            target = entry.point.load()
        application = target if isinstance(target, typer.Typer) else _single(target)
        command = typer.main.get_command(application)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's module may do anything, SystemExit included
        raise BrokenCommand(
            f"the command '{entry.name}' of {entry.owner} cannot be loaded: {reason(error)}",
            "It is a plugin's; `lab plugins` lists what is installed.",
        ) from error
    command.name = entry.name
    return command


def _single(function: Any) -> typer.Typer:
    if not callable(function):
        raise TypeError(f"a command is a typer.Typer or a function, not {type(function).__name__}")
    application = typer.Typer(rich_markup_mode=None, add_completion=False)
    application.command()(function)
    return application
