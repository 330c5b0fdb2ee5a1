"""No command of a document escapes the tests: none is out of their sight, and none passes for something else."""

from __future__ import annotations

import re

import pytest
import typer
from command_reference import PAGE, commands
from documents import OUTPUT, REPOSITORY, blocks, documents, every_block
from markdown_it import MarkdownIt
from strangers import NAMES
from typer.core import TyperGroup

from lab.cli import app

COMMANDS = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}
NO_COMMAND = {
    "lab smooth ...": "what the plugin of the page would bring",
    "lab measure": "to come",
    "lab COMMAND --help": "any",
    "lab --install-completion": "an option of lab itself",
}
TYPED = re.compile(r"(lab|pip|make|git|python3?|pytest|export|\.|cd|curl) (?!.*   )")
"""How a line begins that a person would type; a line in columns is a drawing."""


def text_of(document):
    return (REPOSITORY / document).read_text(encoding="utf-8")


@pytest.mark.parametrize("document", [*documents(), "CHANGELOG.md"])
def test_no_code_stands_where_the_tests_do_not_see_it(document):
    """Another fence, an indented block, HTML, or a fence that its end does not close as we read it."""
    seen = [
        (token.type, token.map[0] + 1, token.content)
        for token in MarkdownIt().parse(text_of(document))
        if token.type in ("fence", "code_block", "html_block")
    ]

    assert seen == [("fence", block.line, block.text) for block in blocks(document)]


@pytest.mark.parametrize("name", NAMES)
def test_a_strangers_readme_has_no_block_that_nobody_runs(name):
    tokens = MarkdownIt().parse(text_of(f"tests/plugins/{name}/README.md"))

    assert [token.content for token in tokens if token.type in ("fence", "code_block", "html_block")] == []


@pytest.mark.parametrize("block", [block for block in every_block() if block.language == OUTPUT], ids=str)
def test_no_command_passes_for_output(block):
    if REPOSITORY / block.document == PAGE:
        return  # written from the commands: usage, with words in capitals
    assert [line for line in block.text.splitlines() if TYPED.match(line)] == []


def mentioned():
    """Each command line within a sentence or a table."""
    for document in documents():
        prose = re.sub(r"^ *```.*?^ *```$", "", text_of(document), flags=re.MULTILINE | re.DOTALL)
        for line in re.findall(r"`(lab [^`\n]+)`", prose):
            if line not in NO_COMMAND:
                yield pytest.param(line, id=f"{document}: {line}")


@pytest.mark.parametrize("line", list(mentioned()))
def test_a_command_in_a_sentence_exists_with_its_options(line):
    words = line.split()
    name = next((name for name in (" ".join(words[:3]), " ".join(words[:2])) if name in COMMANDS), None)
    assert name is not None, "no such command"
    command = COMMANDS[name]
    if isinstance(command, TyperGroup):
        assert all(word.startswith(("-", "[")) for word in words[2:3]), "no such command of the group"
        command = COMMANDS.get(f"{name} list", command)
    options = {"--help", *(option for one in command.params for option in one.opts)}
    given = {word.strip("[]").partition("=")[0] for word in words if word.strip("[]").startswith("--")}

    assert given <= options
