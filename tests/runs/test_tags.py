from __future__ import annotations

import threading

import pytest

from lab.errors import UsageError
from lab.runs import records, tags
from lab.runs.directory import RunDirectory
from lab.runs.tags import Tags


@pytest.fixture
def run(tmp_path):
    return RunDirectory.create(tmp_path, "smoke")


def test_tags_and_a_note_are_kept_and_changed(run):
    tags.change(run, add=["baseline", "h100"], note="first")

    after = tags.change(run, add=["new"], remove=["h100", "never there"])

    assert after == tags.read(run) == Tags(("baseline", "new"), "first")


def test_two_that_tag_at_once_lose_nothing(run, monkeypatch):
    write = records.write_json
    others = []

    def write_later(path, record):
        if not others:  # the first is about to write what it read when the second comes
            others.append(threading.Thread(target=tags.change, args=(run, ["second"])))
            others[0].start()
            others[0].join(0.05)
        write(path, record)

    monkeypatch.setattr(records, "write_json", write_later)

    tags.change(run, ["first"])
    others[0].join()

    assert tags.read(run).tags == ("first", "second")


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
