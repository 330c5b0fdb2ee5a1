"""A document's id, split, and the texts that are the same."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.data.documents import Deduplication, document_id, split_of, well_formed

SEED = 20261003


def test_an_id_is_the_sha256_of_the_text():
    assert document_id("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_the_split_is_the_first_eight_bytes_of_a_hash_over_seed_and_id():
    digest = hashlib.sha256(f"{SEED}:{document_id('abc')}".encode()).digest()
    fraction = int.from_bytes(digest[:8], "big") / 2**64

    assert split_of(document_id("abc"), SEED, fraction + 1e-9) == "validation"
    assert split_of(document_id("abc"), SEED, fraction - 1e-9) == "train"


def test_fractions_of_nothing_and_everything_leave_no_exception():
    ids = [document_id(str(number)) for number in range(2000)]

    assert {split_of(name, SEED, 0.0) for name in ids} == {"train"}
    assert {split_of(name, SEED, 1.0) for name in ids} == {"validation"}


def test_a_twentieth_of_many_documents_is_validation():
    ids = [document_id(str(number)) for number in range(10_000)]

    validation = sum(split_of(name, SEED, 0.05) == "validation" for name in ids)

    assert 430 < validation < 570


def test_membership_is_the_same_whatever_python_hashes_strings_with():
    code = f"from lab.data.documents import *\nprint([split_of(document_id(str(n)), {SEED}, 0.3) for n in range(200)])"
    answers = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(answers) == 1
    assert "validation" in answers.pop()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ab\ud83dcd", "ab\N{REPLACEMENT CHARACTER}cd"),
        (f"ab{chr(0xDC4D)}cd", "ab\N{REPLACEMENT CHARACTER}cd"),
        ("\ud83d", "\N{REPLACEMENT CHARACTER}"),
        ("\ud83d\udc4d", "\N{THUMBS UP SIGN}"),
        ("\ufeffa\ud83d", "\ufeffa\N{REPLACEMENT CHARACTER}"),
        ("plain \N{THUMBS UP SIGN}", "plain \N{THUMBS UP SIGN}"),
    ],
)
def test_a_lone_surrogate_becomes_the_replacement_character(text, expected):
    assert well_formed(text) == expected


@given(st.text(st.characters(codec="utf-8"), max_size=20))
def test_a_text_that_utf8_holds_is_never_changed(text):
    assert well_formed(text) is text


def test_only_identical_texts_are_duplicates():
    seen = Deduplication()
    texts = ["1|2|300$", "4|5|600$", "4|5|600$", "4|5|600$ ", "1|2|300$"]

    assert [seen.is_new(document_id(text)) for text in texts] == [True, True, False, True, False]
