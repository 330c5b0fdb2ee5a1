"""Every block of every document says what it is, and nothing in it is out of date as far as reading can tell."""

from __future__ import annotations

import re
import tomllib

import pytest
from documents import COMMANDS, FILES, MARKS, OUTPUT, REPOSITORY, documents, every_block

BLOCKS = every_block()
MOST_MARKED = 10


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_what_it_is(block):
    assert block.language in (COMMANDS, OUTPUT, *FILES)
    assert set(block.marks) <= set(MARKS)
    assert not block.marks or block.language == COMMANDS


def test_at_most_ten_blocks_need_a_cloud_or_a_gpu():
    assert len([block for block in BLOCKS if block.marks]) <= MOST_MARKED


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language in FILES], ids=str)
def test_a_file_or_a_fragment_of_one_can_be_read(block):
    if block.language == "toml":
        tomllib.loads(block.text)
    else:
        compile(block.text, str(block), "exec")


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == COMMANDS], ids=str)
def test_a_command_can_be_typed_as_it_stands(block):
    for line in block.text.splitlines():
        assert not line.startswith(("$", ">")), "no prompt: a block is copied whole"
        assert not re.search(r"\b(RUN|NAME|ID|OTHER)(_[A-Z])?\b|\.\.\.|<\w+>", line.partition(" # ")[0]), (
            "no placeholder"
        )


@pytest.mark.parametrize("document", documents())
def test_links_lead_somewhere(document):
    folder = (REPOSITORY / document).parent
    text = (REPOSITORY / document).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, heading = target.partition("#")
        assert path.startswith("http") or (folder / path).exists(), target
        if heading:
            titles = re.findall(
                r"^#+ (.+)$", (folder / path if path else REPOSITORY / document).read_text(), re.MULTILINE
            )
            assert heading in {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}, (
                target
            )
