from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.errors import LabError, UsageError
from lab.runs import records
from lab.runs.new_folder import in_the_way, new_folder


def made(target):
    with new_folder(target, "it is kept", "Choose another.") as folder:
        (folder / "file").write_text("x")


def test_a_folder_is_there_as_a_whole_and_with_its_parents(tmp_path):
    made(tmp_path / "a" / "b")

    assert [path.name for path in (tmp_path / "a").rglob("*")] == ["b", "file"]


@pytest.mark.parametrize("make", [os.mkdir, lambda path: path.write_text(""), lambda path: path.symlink_to("nothing")])
def test_what_is_there_already_stays_and_is_named(tmp_path, make):
    make(tmp_path / "b")
    before = sorted(tmp_path.iterdir())

    with pytest.raises(UsageError, match="/b exists: it is kept"):
        made(tmp_path / "b")

    assert sorted(tmp_path.iterdir()) == before


def test_a_disk_that_is_full_is_told_with_the_folder_that_was_named(tmp_path):
    with (
        pytest.raises(LabError, match=r"/b: cannot be written: No space left"),
        new_folder(tmp_path / "b", "it is kept", "Choose another."),
    ):
        raise OSError(28, "No space left on device")  # as a write does, which knows no name

    assert list(tmp_path.iterdir()) == []


def test_what_is_no_folder_on_the_way_is_named():
    with pytest.raises(UsageError, match=r"^/dev/null/x/y cannot be made: /dev/null is not a folder"):
        made(Path("/dev/null/x/y"))


@pytest.mark.parametrize("target", ["/proc/lab/x", "/" + "x" * 300])
def test_where_no_folder_can_be_made_the_one_that_was_named_is_told(target):
    with pytest.raises(UsageError) as caught:
        made(Path(target))

    assert caught.value.what.startswith(f"{target} cannot be made: ")


def test_what_cannot_be_written_in_it_is_told_by_the_name_that_it_should_have(tmp_path):
    def refuse(write):
        with (
            pytest.raises(LabError) as caught,
            new_folder(tmp_path / "a", "it is kept", "Choose another.") as folder,
        ):
            write(folder)
        assert list(tmp_path.iterdir()) == []
        return caught.value.what

    assert refuse(lambda folder: (folder / "none" / "file").write_text("")).startswith(f"{tmp_path}/a: cannot be")
    assert refuse(lambda folder: records.write_bytes(folder / "none" / "file", b"")).startswith(f"{tmp_path}/a/none")


def test_of_two_that_make_one_folder_at_once_the_second_is_told_so(tmp_path):
    with pytest.raises(UsageError, match="exists: it is kept"), new_folder(tmp_path / "a", "it is kept", "No."):
        made(tmp_path / "a")

    assert [path.name for path in tmp_path.rglob("*")] == ["a", "file"]


def test_what_is_in_the_way_is_the_nearest_thing_that_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")

    assert in_the_way(tmp_path / "file" / "a" / "b") == tmp_path / "file"
    assert in_the_way(tmp_path / "a" / "b") is None
