"""Writes docs/commands.md from what every command says about itself: `make reference`.

Only the shape of the page is written here: usage, help, arguments, options and defaults come from the commands, exit
codes from the errors.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from lab import errors
from lab.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[1] / "docs" / "commands.md"
HEAD = """# Every command

*Written by `make reference` from the commands' own help; a test fails when it is stale. `lab COMMAND --help` shows the
same in a terminal.*

- A group without a command lists: `lab runs` is `lab runs list`, with the options of that.
- Results go to standard output, progress and warnings to standard error. With `--json` standard output is one JSON
  document.
- An **experiment** is the name of a file in `experiments/`, or a path of a TOML file.
- A **run** is named by its id, the start of its id, its experiment (the newest run of it), `latest`, its machine's id,
  or a path.
- An option that takes several values is given once for each: `--set seed=1 --set train.steps=3`.
- Plugins may add commands of their own: `lab plugins` names them.
- `lab --install-completion` teaches bash, zsh, fish or PowerShell to complete commands, experiments, runs, backends,
  trackers, stages and the keys of `--set`.
"""
CODES = """## Exit codes

| code | meaning |
|---|---|
| 0 | Done. |
"""
TYPES = {"str": "TEXT", "list[str]": "TEXT", "int": "NUMBER", "int range": "NUMBER", "float": "NUMBER", "path": "PATH"}
"""What the help calls a type, as a person writes it."""


def text() -> str:
    """The whole page."""
    top = typer.main.get_command(app)
    found = list(commands(top))
    sections = [HEAD, _index(found), "\n".join([CODES.rstrip(), *_codes()]) + "\n"]
    for path, command in found:
        sections.append("\n".join(_section(path, command)).rstrip() + "\n")
    return "\n".join(sections)


def commands(command: Any, path: tuple[str, ...] = ("lab",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group below the top one, in the order of the help."""
    for name, inner in command.commands.items():
        yield (*path, name), inner
        if isinstance(inner, TyperGroup):
            yield from commands(inner, (*path, name))


def _index(found: list[tuple[tuple[str, ...], Any]]) -> str:
    lines = ["| command | |", "|---|---|"]
    for path, command in found:
        if not isinstance(command, TyperGroup):
            name = " ".join(path)
            lines.append(f"| [`{name}`](#{name.replace(' ', '-')}) | {_first(command.help)} |")
    return "\n".join(lines) + "\n"


def _codes() -> Iterator[str]:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.LabError)]
    for kind in sorted(kinds, key=lambda kind: kind.exit_code):
        what = "Something failed; what, and what to do, is on standard error." if kind is errors.LabError else None
        yield f"| {kind.exit_code} | {what or _first(kind.__doc__)} |"


def _section(path: tuple[str, ...], command: Any) -> Iterator[str]:
    """One command: its usage, its help, and what it takes."""
    name = " ".join(path)
    if isinstance(command, TyperGroup):
        yield f"## {name}"
        yield ""
        yield command.help.strip()
        return
    context = typer.Context(command, info_name=name)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and not one.hidden]
    yield f"{'#' * (len(path))} {name}"
    yield ""
    yield "```text"
    yield " ".join([name, *(["[OPTIONS]"] if options else []), *map(_usage, arguments)])
    yield "```"
    yield ""
    for paragraph in command.help.strip().split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    if arguments or options:
        yield "| given | meaning | default |"
        yield "|---|---|---|"
    for one in (*arguments, *options):
        given, told = one.get_help_record(context)
        meaning, default = _apart(told)
        yield f"| `{_given(given)}` | {meaning} | {default} |".replace("|  |", "| |")


def _usage(argument: Any) -> str:
    shown = argument.name.upper() + ("..." if argument.nargs == -1 else "")
    return shown if argument.required else f"[{shown}]"


def _given(record: str) -> str:
    """`experiment <str>` is EXPERIMENT; `--bundle-mb <int range>` is `--bundle-mb NUMBER`."""
    named = re.sub(r"<([^>]+)>", lambda found: TYPES.get(found[1], found[1].upper()), record)
    return named if named.startswith("-") else named.partition(" ")[0].upper()


def _apart(told: str) -> tuple[str, str]:
    """The meaning and the default: `...  [default: 50; x>=1]` and `...  [required]` end a help."""
    text = " ".join(told.replace("|", "\\|").split())
    found = re.fullmatch(r"(?P<meaning>.*?) ?\[(?P<note>(default: |required|x|\d+<=)[^\]]*)\]", text)
    if found is None:
        return text, ""
    return found["meaning"], ", ".join(_bound(part) for part in found["note"].removeprefix("default: ").split("; "))


def _bound(part: str) -> str:
    """`x>=1` is `at least 1`; `1<=x<=65535` is `1 to 65535`."""
    if least := re.fullmatch(r"x>=(.+)", part):
        return f"at least {least[1]}"
    between = re.fullmatch(r"(.+)<=x<=(.+)", part)
    return f"{between[1]} to {between[2]}" if between else part


def _first(documentation: str | None) -> str:
    return " ".join((documentation or "").strip().split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
