"""GPT-2's tokenizer: known ids, equality with two other implementations, and hostile texts."""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.data import tokenizer as tokenizers_of_lab
from lab.data.tokenizer import embedded_folder, from_files, load, vocabulary_files
from lab.errors import LabError
from lab.experiment.sections import Tokenizer as Choice

HOSTILE = [
    "a<|endoftext|>b",
    "<|endoftext|>",
    "I'll  say:\n\n na\u00efve \U0001f642 we're IT'S",
    "   three\u00a0nbsp \u2028\u2029\x85 \t\r\n  end   ",
    "\x1c\x1d\x1e\x1f\0",
    "\u4e2d\u6587 \u0627\u0644 \u0e44\u0e17\u0e22 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "1234567890 3.14 x\u00b2 \u2160",
]


@pytest.fixture(scope="module")
def gpt2():
    return load(Choice())


@pytest.fixture(scope="module")
def hub_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt2")
    shutil.copy(embedded_folder() / "encoder.json", folder / "vocab.json")
    shutil.copy(embedded_folder() / "vocab.bpe", folder / "merges.txt")
    return folder


@pytest.fixture(scope="module")
def reference(hub_folder):
    from tokenizers import ByteLevelBPETokenizer

    return ByteLevelBPETokenizer(str(hub_folder / "vocab.json"), str(hub_folder / "merges.txt"))


def test_known_ids(gpt2):
    assert gpt2.encode("Hello world").tolist() == [15496, 995]
    assert gpt2.encode("").tolist() == []
    assert (gpt2.vocabulary, gpt2.eos) == (50257, 50256)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_text_spells_is_text_and_comes_back(gpt2, text):
    ids = gpt2.encode(text)

    assert ids.dtype == np.uint32
    assert gpt2.eos not in ids
    assert gpt2.decode(ids) == text


@pytest.mark.parametrize("text", HOSTILE)
def test_ids_equal_those_of_tokenizers(gpt2, reference, text):
    assert gpt2.encode(text).tolist() == reference.encode(text).ids


@settings(max_examples=60)
@given(st.text(st.characters(codec="utf-8", exclude_categories=("Cn", "Cs")), max_size=60))
def test_ids_of_any_text_equal_those_of_tokenizers(gpt2, reference, text):
    assert gpt2.encode(text).tolist() == reference.encode(text).ids


def test_ids_equal_those_of_transformers_and_of_a_hub_folder(gpt2, hub_folder):
    from transformers import GPT2TokenizerFast

    theirs = GPT2TokenizerFast.from_pretrained(hub_folder)
    hub = load(Choice(), hub_folder)

    assert len(theirs) == hub.vocabulary
    for text in [t for t in HOSTILE if "<|" not in t]:
        assert gpt2.encode(text).tolist() == hub.encode(text).tolist() == theirs.encode(text)
    assert hub.sha256 == gpt2.sha256


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("^" * 1_000_000, 250_000), ("a" * 200_000, 50_000), (" " * 1_100_000 + "a" + "\t" * 1_100_000 + "b", 2_200_001)],
    ids=["punctuation", "letters", "white space before letters"],
)
def test_a_long_run_of_one_character_is_encoded_in_time(gpt2, text, tokens):
    ids = gpt2.encode(text)

    assert len(ids) == tokens
    assert gpt2.decode(ids) == text


@pytest.mark.parametrize("white", [" ", "\n", "\t", "\u3000", " \n", "\u2028"])
@pytest.mark.parametrize("after", ["a", ".", "'s", "7", "\x1c"])
def test_cutting_white_space_changes_no_id(gpt2, monkeypatch, white, after):
    text = f"start{white * 9}{after} {white * 8}"
    monkeypatch.setattr(
        tokenizers_of_lab,
        "LONG_WHITE_SPACE",
        tokenizers_of_lab.re.compile(tokenizers_of_lab.LONG_WHITE_SPACE.pattern.replace("10000", "3")),
    )

    parts = tokenizers_of_lab._cut_white_space(text)

    assert len(parts) == 2
    assert np.concatenate([gpt2.encode(part) for part in parts]).tolist() == gpt2.encode(text).tolist()


def test_each_id_knows_how_many_bytes_it_stands_for(gpt2):
    text = "na\u00efve \U0001f642 text"

    lengths = gpt2.token_bytes()

    assert lengths[gpt2.encode(text)].sum() == len(text.encode())
    assert lengths[gpt2.eos] == 0
    assert lengths.shape == (50257,)


def test_using_a_tokenizer_does_not_change_its_identity(gpt2):
    gpt2.encode("some text")

    assert gpt2.record() == load(Choice()).record()


def test_a_vocabulary_that_is_only_touched_is_the_same_tokenizer(tmp_path, hub_folder, gpt2):
    shutil.copytree(hub_folder, tmp_path, dirs_exist_ok=True)
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))

    assert load(Choice(), tmp_path).record() == gpt2.record()


def test_one_changed_byte_is_another_tokenizer_and_not_gpt2(tmp_path, hub_folder, gpt2):
    shutil.copytree(hub_folder, tmp_path, dirs_exist_ok=True)
    merges = (tmp_path / "merges.txt").read_bytes()
    (tmp_path / "merges.txt").write_bytes(merges.replace(b"#version: 0.2", b"#version: 0.3"))

    changed = from_files(*vocabulary_files(tmp_path), "mine", "1")

    assert changed.sha256 != gpt2.sha256
    with pytest.raises(LabError, match=r"merges\.txt: is not the file of openai-community/gpt2"):
        load(Choice(), tmp_path)


def small_vocabulary(folder, change=lambda ids: None, merges="#version: 0.2\na b\nab c\n"):
    ids = {symbol: number for number, symbol in enumerate(tokenizers_of_lab.SYMBOLS)}
    ids |= {"ab": 256, "abc": 257, "<|endoftext|>": 258}
    change(ids)
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    (folder / "merges.txt").write_text(merges, encoding="utf-8")
    return vocabulary_files(folder)


def test_another_vocabulary_of_the_same_kind_is_read(tmp_path):
    own = from_files(*small_vocabulary(tmp_path), "own", "1")

    assert own.encode("abcab")[[0, 1]].tolist() == [257, 256]
    assert (own.vocabulary, own.eos) == (259, 258)


def test_a_vocabulary_without_end_of_text_is_refused_with_the_key_to_set(tmp_path):
    files = small_vocabulary(tmp_path, lambda ids: ids.pop("<|endoftext|>"))

    with pytest.raises(LabError) as refused:
        from_files(*files, "own", "1")

    assert "vocab.json: has no <|endoftext|>" in refused.value.what
    assert "data.tokenizer.name" in refused.value.do


@pytest.mark.parametrize(
    ("change", "merges"),
    [
        (lambda ids: ids.pop("ab"), "a b\n"),
        (lambda ids: ids.pop("!"), "a b\n"),
        (lambda ids: ids.update({"ab": 257, "abc": 256}), "a b\nab c\n"),
        (lambda ids: ids.update({"\u4e2d": 300}), "a b\n"),
    ],
    ids=["a merge without an id", "a byte without an id", "ids against the order", "a symbol for no byte"],
)
def test_files_that_do_not_fit_are_refused_by_name(tmp_path, change, merges):
    files = small_vocabulary(tmp_path, change, merges)

    with pytest.raises(LabError, match=r"vocab\.json: "):
        from_files(*files, "own", "1")


def test_a_vocabulary_that_is_not_json_is_refused_by_name(tmp_path):
    (tmp_path / "vocab.json").write_bytes(b"\xff{")
    (tmp_path / "merges.txt").write_bytes(b"")

    with pytest.raises(LabError, match=r"vocab\.json: does not fit"):
        from_files(*vocabulary_files(tmp_path), "own", "1")


def test_a_folder_without_a_vocabulary_says_which_files_it_needs(tmp_path):
    with pytest.raises(LabError, match=r"neither vocab\.json with merges\.txt nor encoder\.json with vocab\.bpe"):
        vocabulary_files(tmp_path)


def test_another_tokenizer_or_revision_needs_its_files():
    for choice in (Choice(name="someone/tokenizer", revision="1" * 40), Choice(revision="2" * 40)):
        with pytest.raises(LabError, match="is not on this machine"):
            load(choice)


def test_a_missing_package_says_how_to_install_it(monkeypatch):
    monkeypatch.setattr(tokenizers_of_lab, "PACKAGE", "no_such_package_here")

    with pytest.raises(LabError) as missing:
        load(Choice())

    assert "llm-training-lab[embedded]" in missing.value.do
