from __future__ import annotations

import pytest

from lab.errors import UsageError
from lab.runs import tags
from lab.runs.directory import RunDirectory
from lab.runs.tags import Tags


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "smoke")


def test_tags_and_a_note_are_kept_and_changed(run):
    tags.change(run, add=["baseline", "h100"], note="first")

    after = tags.change(run, add=["new"], remove=["h100", "never there"])

    assert after == tags.read(run) == Tags(("baseline", "new"), "first")


def test_an_empty_note_removes_it(run):
    tags.change(run, note="first")

    assert tags.change(run, note="").note == ""


@pytest.mark.parametrize("note", ["caf\udce9", "a\0b"])
def test_a_note_is_text(run, note):
    with pytest.raises(UsageError, match="The note is not text in UTF-8: character"):
        tags.change(run, note=note)

    assert not run.tags.exists()


@pytest.mark.parametrize("tag", ["\udc80", "", "two words", "-x", "a\nb", "x" * 65, "\x1b[31m"])
def test_a_tag_is_one_word(run, tag):
    with pytest.raises(UsageError, match="is no tag"):
        tags.change(run, add=[tag])

    assert not run.tags.exists()


@pytest.mark.parametrize("content", ["{", '{"tags": "x", "note": 5}', '{"tags": [1, "a"]}'])
def test_a_damaged_record_never_raises(run, content):
    run.tags.write_text(content)

    assert tags.read(run).note == ""
