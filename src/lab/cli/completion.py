"""What the shell completes: names of experiments, runs, parts, stages and settings of this project.

A completer returns what fits, or nothing: while a person types is no moment to say what is wrong.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

import typer  # noqa: TC002 - typer reads the annotations of what completes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lab.settings import Settings

    Completer = Callable[[typer.Context, str], list[str]]

VARIABLE = "_LAB_COMPLETE"
"""Set by the script in the shell while it asks."""
LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Where the script puts the line as far as it is typed: bash's, and those of the other shells."""


def asked() -> bool:
    """Whether a shell asks what fits, instead of a person giving a command."""
    return os.environ.get(VARIABLE, "").startswith("complete_")


def answer(command: Callable[[], None]) -> int:
    """Let the command answer the shell, and print nothing else: it would stand in the line that is being typed."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        try:
            command()
        except Exception:  # such as a plugin's command that cannot be loaded: told when it is called
            return 0
    return 0


def _completer(find: Callable[[Settings, typer.Context], Iterator[str]]) -> Completer:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        from lab.settings import read_settings

        try:
            found = list(find(read_settings(), ctx))
        except Exception:  # a broken file is told by the command that needs it
            return []
        return [one for one in found if one.startswith(incomplete)]

    return complete


@_completer
def experiments(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Names of experiments."""
    from lab.experiment.finding import names

    yield from names(settings.experiments_folder)


@_completer
def runs(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """`latest`, the experiments that ran, and the ids of runs, the newest first."""
    from lab.runs.directory import NAME, named
    from lab.runs.find import LATEST

    ids = named(settings.runs_folder)[::-1]
    if ids:
        yield LATEST
    yield from dict.fromkeys(parts["experiment"] for parts in map(NAME.match, ids) if parts)
    yield from ids


@_completer
def experiments_and_runs(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Names of experiments, then runs."""
    from lab.experiment.finding import names
    from lab.runs.directory import named

    yield from names(settings.experiments_folder)
    yield from reversed(named(settings.runs_folder))


@_completer
def backends(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Names of backends."""
    yield from _parts("backend", settings)


@_completer
def trackers(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Names of trackers."""
    yield from _parts("tracker", settings)


@_completer
def stages(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Stages of the run that stands before, or of the latest, that have a log."""
    from lab.runs.find import LATEST, find

    before = ctx.args or [LATEST]  # an option without its value ends the parsing, so they are no parameters yet
    run = find(before[0], settings)
    yield from sorted(path.stem for path in run.logs.glob("*.log"))


@_completer
def kinds(settings: Settings, ctx: typer.Context) -> Iterator[str]:
    """Kinds of part of which there is a template."""
    from lab.cli.plugin_template import KINDS

    yield from KINDS


def keys(ctx: typer.Context, incomplete: str) -> list[str]:
    """What an experiment may set, as `optimizer.clip=`, and what it is now once only one key fits.

    With a second word that goes on behind the `=`, bash leaves out the blank with which it ends a complete one.
    """
    from lab.cli import settable
    from lab.settings import read_settings

    line = next((os.environ[name] for name in LINES if name in os.environ), "")
    words = ctx.args or [str(ctx.params.get("experiment"))]  # `--set` without its value ends the parsing
    try:
        return settable.fitting(incomplete, words, line, read_settings())
    except Exception:  # as above: a broken file is told by the command that needs it
        return []


def _parts(kind: str, settings: Settings) -> Iterator[str]:
    from lab.plugins import Plugins

    yield from sorted(Plugins(settings.blocked_plugins).parts(kind))
