"""A person finds every document, in the order in which to read them."""

from __future__ import annotations

import re

import pytest
from documents import READING_ORDER, REPOSITORY, documents

FOLDERS = ("docs", "plugins", "experiments", "benchmarks")
NO_DOCUMENT = {"CHANGELOG.md"}


def text_of(document):
    return (REPOSITORY / document).read_text(encoding="utf-8")


def test_the_readme_names_the_documents_in_the_order_in_which_they_are_read():
    section = text_of("README.md").partition("## Where to read on")[2]
    listed = re.findall(r"^\d\. \[[^]]+\]\(([^)]+)\)", section, re.MULTILINE)

    assert ["README.md", *listed] == [*READING_ORDER, "docs/architecture.md"]
    assert "(docs/commands.md)" in section


def test_every_document_of_the_folders_is_read_by_these_tests():
    paths = [*REPOSITORY.glob("*.md"), *(path for folder in FOLDERS for path in (REPOSITORY / folder).rglob("*.md"))]
    found = {path.relative_to(REPOSITORY).as_posix() for path in paths}
    caches = {name for name in found if any(part.startswith(".") for part in name.split("/"))}

    assert found - caches - NO_DOCUMENT == set(documents())


@pytest.mark.parametrize("document", [document for document in documents() if document != "README.md"])
def test_every_document_is_reached_by_a_link(document):
    name = document.rpartition("/")[2]
    place = document.split("/")[-2] + "/" + name if name == "README.md" else name

    assert any(f"{place})" in text_of(other) for other in documents() if other != document)
