"""Commands that plugins add by the entry-point group `lab.commands`: found by name, imported only when called."""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from lab.errors import LabError
from lab.hookspecs import COMMANDS_GROUP
from lab.plugins.entries import Entry, entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class BrokenCommand(LabError):
    """A plugin's command cannot be loaded, or raises what no person is meant to read."""


def find_command(name: str) -> Any:
    """The command that a plugin registered as `name`, or None.

    Raises `BrokenCommand` with the reason when it is registered but cannot be loaded.
    """
    found = [entry for entry in _callable() if entry.name == name]
    if not found:
        return None
    if len(found) > 1:
        owners = " and ".join(sorted({entry.owner for entry in found}))
        raise BrokenCommand(f"two plugins offer the command '{name}': {owners}.", "Uninstall one of them.")
    return _loaded(found[0])


def listed() -> list[dict[str, str]]:
    """Every command of a plugin that can be typed, and who offers it; nothing is imported."""
    found = [{"name": entry.name, "from": entry.owner} for entry in _callable()]
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
        elif not _is_word(entry.name):
            yield f"command '{entry.name}' of {entry.owner} is never called: a name is one word and begins with no dash"


def _callable() -> list[Entry]:
    return [entry for entry in entries(COMMANDS_GROUP) if entry.point is not None and _is_word(entry.name)]


def _is_word(name: str) -> bool:
    """Whether a shell passes it as a command; it would take others for options, or not show them as they are."""
    return name.isprintable() and len(name.split()) == 1 and not name.startswith("-")


def _loaded(entry: Entry) -> Any:
    from lab.plugins import reason
    from lab.plugins.containing import contained

    try:
        with contained():
            if entry.point is None or entry.fault:
                raise ValueError(entry.fault)
            target = entry.point.load()
            application = target if isinstance(target, typer.Typer) else _single(target)
            command: Any = typer.main.get_command(application)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a plugin's module may do anything, SystemExit included
        raise BrokenCommand(
            f"the command '{entry.name}' of {entry.owner} cannot be loaded: {reason(error)}",
            "It is a plugin's; `lab plugins` lists what is installed.",
        ) from error
    command.name = entry.name
    for step in ("make_context", "invoke"):
        setattr(command, step, partial(_blaming, entry, getattr(command, step)))
    return command


def _single(function: Any) -> typer.Typer:
    if not inspect.isroutine(function):
        raise TypeError(f"a command is a typer.Typer or a function, not {type(function).__name__}")
    for is_lazy in (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction):
        if is_lazy(function):
            raise TypeError("a command is a plain function: nobody would await or iterate what this one returns")
    application = typer.Typer(rich_markup_mode=None, add_completion=False)
    application.command()(function)
    return application


def _blaming(entry: Entry, work: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Do a part of the command's work; raise `BrokenCommand` for what it raises and no person is meant to read."""
    with _blamed(entry):
        return work(*arguments, **keywords)


@contextmanager
def _blamed(entry: Entry) -> Iterator[None]:
    from lab.plugins import reason, told_apart

    try:
        with told_apart():
            yield
    except (typer.Abort, EOFError, OSError, SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        if hasattr(error, "exit_code"):  # lab's errors and those of typer know how a command ends
            raise
        raise BrokenCommand(
            f"the command '{entry.name}' of {entry.owner} failed: {reason(error)}",
            f"It is a plugin's; report it to the authors of {entry.distribution}. LAB_DEBUG=1 shows the traceback.",
        ) from error
