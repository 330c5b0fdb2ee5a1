"""How help names what a command takes: in the same words in the terminal and in docs/commands.md.

typer writes `{experiment}`, `<int range>` and `x>=1`; a person reads `EXPERIMENT`, `NUMBER` and `at least 1`.
"""

from __future__ import annotations

import re
from typing import Any

from typer.core import TyperCommand

TYPES = {"str": "TEXT", "list[str]": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "path": "PATH"}
"""What typer calls a type, as a person writes it."""
_NOTE = re.compile(r"(?P<meaning>.*?) *\[(?P<note>(?:default: |required|x|\d+<=)[^\]]*)\]", re.DOTALL)


class Command(TyperCommand):
    """A command that says so in its help and its errors."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        for argument in _only("argument", self.params):
            argument.metavar = argument.metavar or argument.name.upper()

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What follows its name, as `[OPTIONS] EXPERIMENT`."""
        options = ["[OPTIONS]"] if _only("option", self.params) else []
        return [*options, *map(_placed, _only("argument", self.params))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Its arguments, then its options."""
        for kind in ("argument", "option"):
            rows = [_row(*record(one, ctx)) for one in _only(kind, self.get_params(ctx))]
            if rows:
                with formatter.section(f"{kind.title()}s"):
                    formatter.write_dl(rows)


def record(parameter: Any, ctx: Any) -> tuple[str, str, str]:
    """What to give, what it means, and a note: `required`, or its default and bounds as `default: 50, at least 1`."""
    shown, told = parameter.get_help_record(ctx)
    if parameter.param_type_name == "argument":
        given = _repeated(parameter)
    else:
        given = re.sub(r"<([^>]+)>", lambda found: TYPES.get(found[1], found[1].upper()), shown)
    found = _NOTE.fullmatch(told)
    if found is None:
        return given, told, ""
    return given, found["meaning"], ", ".join(map(_bound, found["note"].split("; ")))


def _row(given: str, meaning: str, note: str) -> tuple[str, str]:
    return given, f"{meaning}  [{note}]" if note else meaning


def _only(kind: str, parameters: list[Any]) -> list[Any]:
    return [one for one in parameters if one.param_type_name == kind and not getattr(one, "hidden", False)]


def _placed(argument: Any) -> str:
    return _repeated(argument) if argument.required else f"[{_repeated(argument)}]"


def _repeated(argument: Any) -> str:
    return f"{argument.metavar}{'...' if argument.nargs == -1 else ''}"


def _bound(note: str) -> str:
    """`x>=1` is `at least 1`; `1<=x<=65535` is `1 to 65535`."""
    if least := re.fullmatch(r"x>=(.+)", note):
        return f"at least {least[1]}"
    between = re.fullmatch(r"(.+)<=x<=(.+)", note)
    return f"{between[1]} to {between[2]}" if between else note
