"""A later attempt of a run: fed what the run recorded, or refused naming what differs."""

from __future__ import annotations

import pytest
from fakes import ByteTokenizer, ListSource

from lab.data.prepare import manifest_for_run, prepare
from lab.errors import LabError
from lab.experiment.sections import Data

TEXTS = [f"text {number}" for number in range(30)]


def prepared(tmp_path, source, recorded=None, tokenizer=None, split_seed=3):
    data = Data(
        source="list", train_tokens=100, validation_tokens=10, max_documents=30, validation_fraction=0.2,
        split_seed=split_seed,
    )  # fmt: skip
    return prepare(data, source, tmp_path, None, tokenizer or ByteTokenizer(), recorded=recorded)


@pytest.fixture
def recorded(tmp_path):
    """What the run's first attempt recorded."""
    return manifest_for_run(prepared(tmp_path, ListSource(TEXTS)))


def test_the_same_data_is_taken_whatever_the_tokenizer_is_called(tmp_path, recorded):
    again = prepared(tmp_path, ListSource(TEXTS), recorded, ByteTokenizer(name="else", revision="else"))

    assert again.identity == recorded["identity"]


@pytest.mark.parametrize(
    ("texts", "changed", "told"),
    [
        ([*TEXTS, "more"], {}, "source.texts: 30 -> 31"),
        (TEXTS, {"tokenizer": ByteTokenizer(sha256="c" * 64)}, f"tokenizer.sha256: {'b' * 64} -> {'c' * 64}"),
        (TEXTS, {"split_seed": 4}, "collection.split_seed: 3 -> 4"),
    ],
    ids=["the source", "the tokenizer", "the split"],
)
def test_other_data_is_refused_naming_what_differs_and_not_even_read(tmp_path, recorded, texts, changed, told):
    source = ListSource(texts)

    with pytest.raises(LabError) as refused:
        prepared(tmp_path, source, recorded, **changed)

    assert refused.value.what == f"The data is not what the run was fed before:\n  {told}"
    assert "start a new run" in refused.value.do
    assert source.read == 0


def test_a_cache_of_another_format_is_said_to_be_that(tmp_path, recorded):
    with pytest.raises(LabError) as refused:
        prepared(tmp_path, ListSource(TEXTS), {**recorded, "identity": "of an older lab"})

    assert refused.value.what.endswith("\n  the token cache's format")


def test_many_differences_are_named_by_file_and_counted_and_not_all_listed(tmp_path, recorded):
    files = [{"file": f"{number}.txt", "sha256": "0"} for number in range(30)]

    with pytest.raises(LabError) as refused:
        prepared(tmp_path, ListSource(TEXTS), {"identity": "another", "source": {"files": files}})

    listed = refused.value.what.splitlines()[1:]
    assert "  source.files.0.txt.sha256: 0 -> None" in listed
    assert len(listed) == 20 + 1
    assert listed[-1].endswith(" more")
