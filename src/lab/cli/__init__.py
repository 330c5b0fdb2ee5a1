"""The `lab` command: which commands there are, and how an error reaches the person who typed one.

A command is a function in a module of its own, `lab.cli.check:check`; a group is `group`, a `typer.Typer` made by
`lab.cli.groups.new`, in the module of its name. Both import what they need inside the function, so that `lab --help`
loads nothing heavy.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Annotated, NoReturn

import typer

from lab.cli import completion, failures, streams
from lab.cli.groups import Commands
from lab.cli.wording import Command
from lab.here import remembered

COMMANDS = ("run", "resume", "check", "compare", "report", "ui", "doctor")
GROUPS = ("runs", "experiments", "data", "rentals", "plugins")

app = typer.Typer(
    cls=Commands,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    epilog="Plugins may add commands of their own: `lab plugins` names them.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"lab {version('llm-training-lab')}")
        raise typer.Exit


@app.callback()
def lab(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Controlled LLM-training experiments: what one change does to loss, speed, memory and cost."""
    failures.show_warnings()


def _register() -> None:
    for name in (*COMMANDS, *GROUPS):
        module = importlib.import_module(f"{__name__}.{name}")
        if name in COMMANDS:
            app.command(name, cls=Command)(getattr(module, name))
        else:
            app.add_typer(module.group, name=name)


_register()


def main() -> NoReturn:
    """Run the command line and exit with the code that says how it ended."""
    streams.guard()
    # pydantic would look for plugins of its own, and one damaged distribution of anybody's ends that search
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    with remembered():
        code = _code()
    sys.exit(streams.ending(code))


def _code() -> int:
    """Run the command line; what it ends with."""
    if completion.asked():
        return completion.answer(lambda: app(prog_name="lab"))
    try:
        app(prog_name="lab")
    except SystemExit as ended:
        if isinstance(ended.code, str):  # a command of a plugin may end with words
            raise
        return ended.code or 0
    except Exception as error:
        return failures.explain(error)
    return 0
