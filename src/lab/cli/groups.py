"""How commands are grouped: a bare group lists, and the top level also finds the commands of plugins."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from lab.cli.wording import Command


class Listing(TyperGroup):
    """A group whose `list` command may go unnamed: `lab runs --json` is `lab runs list --json`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the unnamed `list` in front of its options."""
        asks_for_help = bool(args) and args[0] in ctx.help_option_names
        asked_by_shell = ctx.resilient_parsing and not args
        if not asks_for_help and not asked_by_shell and (not args or args[0].startswith("-")):
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Our commands, or the options of the unnamed `list`."""
        if incomplete.startswith("-"):
            return self.commands["list"].shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)


class Commands(TyperGroup):
    """The top level: our commands, our groups, then what plugins add."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Our own command of this name, else a plugin's, which is imported here and not before."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        from lab.cli.foreign import find_command

        return find_command(cmd_name)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Our commands, then those of plugins; none of these is imported."""
        from lab.cli.foreign import listed

        for command in listed():
            self.commands.setdefault(command["name"], TyperCommand(command["name"], help=f"Of {command['from']}."))
        return super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Show commands and groups apart, each on one line."""
        own = [(name, command) for name, command in self.commands.items() if not command.hidden]
        width = formatter.width - 6 - max((len(name) for name, _ in own), default=0)
        for title, wanted in (("Commands", False), ("Groups", True)):
            rows = [
                (name, command.get_short_help_str(width))
                for name, command in own
                if isinstance(command, TyperGroup) is wanted
            ]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


class Group(typer.Typer):
    """A group whose commands have help in our words."""

    def command(self, name: str | None = None, **keywords: Any) -> Any:
        """Register a function as a command of this name."""
        return super().command(name, cls=Command, **keywords)


def new(help: str) -> typer.Typer:
    """A group of commands with one line of help; its `list` command is also what the bare group does."""
    return Group(cls=Listing, help=help, rich_markup_mode=None)
