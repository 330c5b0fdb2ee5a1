"""Writes docs/commands.md from what every command says about itself: `make reference`.

Only the shape of the page is written here: usage, help, arguments, options and defaults come from the commands, exit
codes from the errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from lab import errors
from lab.cli import app, streams
from lab.cli.wording import record

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
- A **run** is named by its id, the start of its id, its experiment, a tag, `latest`, its machine's id, or a path.
  An experiment means its newest run; where runs are compared or reported, the newest that completed without `--set`.
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
    meanings = {kind.exit_code: _first(kind.__doc__) for kind in kinds}
    meanings[errors.LabError.exit_code] = "Something failed; what, and what to do, is on standard error."
    meanings[streams.UNREAD] = "Whoever read the output left, as `head` does; what the command does is done."
    for code, meaning in sorted(meanings.items()):
        yield f"| {code} | {meaning} |"


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
    yield " ".join([name, *command.collect_usage_pieces(context)])
    yield "```"
    yield ""
    for paragraph in command.help.strip().split("\n\n"):
        yield " ".join(paragraph.split())
        yield ""
    if arguments or options:
        yield "| given | meaning | default |"
        yield "|---|---|---|"
    for one in (*arguments, *options):
        given, meaning, note = record(one, context)
        yield f"| `{given}` | {_cell(meaning)} | {note.removeprefix('default: ')} |".replace("|  |", "| |")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _first(documentation: str | None) -> str:
    return " ".join((documentation or "").strip().split("\n\n")[0].split())


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
