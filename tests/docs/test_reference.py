"""docs/commands.md says of every command what the command says of itself."""

from __future__ import annotations

import re

import pytest
import typer
from command_reference import PAGE, commands, text
from typer.core import TyperGroup

from lab import errors
from lab.cli import app, streams

PAGE_TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = [
    " ".join(path) for path, command in commands(typer.main.get_command(app)) if not isinstance(command, TyperGroup)
]


def test_the_page_is_what_the_commands_say():
    assert text() == PAGE_TEXT, "docs/commands.md is stale: make reference"


def test_every_command_has_its_section_and_its_place_in_the_list():
    for name in COMMANDS:
        assert f"# {name}\n" in PAGE_TEXT
        assert f"[`{name}`](#{name.replace(' ', '-')})" in PAGE_TEXT


def test_every_exit_code_is_explained_once():
    codes = {kind.exit_code for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_code")}
    codes |= {0, streams.UNREAD}

    assert {code: PAGE_TEXT.count(f"\n| {code} | ") for code in codes} == dict.fromkeys(codes, 1)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_terminal_names_what_a_command_takes_as_the_page_does(name, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    section = PAGE_TEXT.partition(f"# {name}\n")[2].partition("\n#")[0]
    given = re.findall(r"^\| `(.+?)` \|", section, re.MULTILINE)

    shown = lab(*name.split()[1:], "--help").out

    assert shown.startswith(f"Usage: {section.partition('```text')[2].split('```')[0].strip()}")
    assert [one for one in given if f"\n  {one}  " not in shown] == []


def test_a_type_and_a_default_are_written_as_a_person_would():
    assert "| `--bundle-mb NUMBER` | How large the bundle of code may be. | 50, at least 1 |" in PAGE_TEXT
    assert "| `EXPERIMENT` | Name of an experiment, or path of its TOML file. | required |" in PAGE_TEXT
