from __future__ import annotations

import errno
import json
import math
import os
import socket
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.errors import LabError
from lab.runs import records, regular
from lab.runs.records import Tail, append_line, last_lines, read_json, read_lines, sweep, torn_lines, write_json

LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(),
    st.sampled_from(["NaN", "Infinity", "-Infinity", "\\NaN", "\\\\-Infinity", "nan", "infinity"]),
)  # fmt: skip
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(record=st.dictionaries(st.text(max_size=5), VALUES, max_size=5))
def test_every_record_comes_back_as_it_was_and_is_strict_json(tmp_path, record):
    path = tmp_path / "record.json"

    write_json(path, record)

    assert same(read_json(path), record)
    json.loads(path.read_bytes(), parse_constant=pytest.fail)


def test_numbers_that_json_lacks_come_back_as_numbers_and_words_as_words(tmp_path):
    record = {"loss": {"last": math.inf}, "description": "NaN", "values": [math.nan, "-Infinity", "\\NaN"]}

    write_json(tmp_path / "a.json", record)
    found = read_json(tmp_path / "a.json")

    assert found["loss"]["last"] == math.inf
    assert found["description"] == "NaN"
    assert math.isnan(found["values"][0])
    assert found["values"][1:] == ["-Infinity", "\\NaN"]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        (r'{"v": "NaN"}', "nan"),
        (r'{"v": "-Infinity"}', "-inf"),
        (r'{"v": "\u004eaN"}', "nan"),
        (r'{"v": ["Infinity"]}', "[inf]"),
        (r'{"v": {"w": "NaN"}}', "{'w': nan}"),
        (r'{"v": "\\NaN"}', "'NaN'"),
        (r'{"v": "NaN and more"}', "'NaN and more'"),
    ],
)
def test_a_word_in_a_line_is_meant_however_it_is_spelled(tmp_path, line, meant):
    path = tmp_path / "metrics.jsonl"
    path.write_text(f"{line}\n", encoding="utf-8")

    assert [repr(one["v"]) for one in records.read_lines(path)] == [meant]


def test_a_name_that_is_no_text_survives(tmp_path):
    write_json(tmp_path / "a.json", {"path": "b\udcff.txt"})

    assert read_json(tmp_path / "a.json") == {"path": "b\udcff.txt"}


def test_there_is_no_record_where_there_is_no_file(tmp_path):
    assert read_json(tmp_path / "a.json") is None
    assert list(read_lines(tmp_path / "a.jsonl")) == []


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"\xff\xfe", b"null", b"[" * 100_000, b"1" * 5000])
def test_what_is_no_record_is_an_error_that_names_the_file(tmp_path, content):
    (tmp_path / "a.json").write_bytes(content)

    with pytest.raises(LabError, match=r"a\.json"):
        read_json(tmp_path / "a.json")


class Disk:
    """Takes `room` more bytes and is full then."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def write(self, handle: int, content: bytes) -> int:
        if self.room <= 0:
            raise OSError(28, os.strerror(28))
        written = self._write(handle, content[: self.room])
        self.room -= written
        return written


def test_a_write_that_fails_leaves_the_old_record_and_no_other_file(tmp_path, monkeypatch):
    write_json(tmp_path / "a.json", {"a": 1})

    def full(handle: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(records.os, "fsync", full)
    with pytest.raises(LabError, match=r"a\.json: cannot be written: No space left") as caught:
        write_json(tmp_path / "a.json", {"a": 2})

    assert "Free space" in caught.value.do
    assert read_json(tmp_path / "a.json") == {"a": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_record_is_synced_before_it_takes_its_name(tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(records.os, "fsync", lambda handle: done.append("sync"))
    rename = os.replace
    monkeypatch.setattr(records.os, "replace", lambda *names: (done.append("rename"), rename(*names)))

    write_json(tmp_path / "a.json", {})

    assert done[:2] == ["sync", "rename"]


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(LabError, match="missing"):
        write_json(tmp_path / "missing" / "a.json", {})
    with pytest.raises(LabError, match="missing"):
        append_line(tmp_path / "missing" / "a.jsonl", {})


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ENOSPC, "Free space there"),
        (errno.EACCES, "Make the folder writable"),
        (errno.ENOENT, "cannot be made there"),
        (errno.ENOTDIR, "Move away what stands there"),
        (errno.EIO, "wrong with the disk"),
    ],
)
def test_whatever_keeps_a_file_from_being_written_there_is_something_to_do(number, told):
    error = regular.unwritable(Path("a/b.json"), OSError(number, os.strerror(number)))

    assert error.what == f"a/b.json: cannot be written: {os.strerror(number)}"
    assert told in error.do
    assert "LAB_RUNS" in error.do


def test_a_line_that_does_not_fit_is_taken_back_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.jsonl"
    append_line(path, {"step": 1})
    disk = Disk(room=5)
    monkeypatch.setattr(records.os, "write", disk.write)

    with pytest.raises(LabError, match="No space left"):
        append_line(path, {"step": 2})
    disk.room = 1000
    append_line(path, {"step": 3})

    assert [line["step"] for line in read_lines(path)] == [1, 3]
    assert torn_lines(path) == 0


@pytest.mark.parametrize("torn", [b'{"step": 2, "lo', b"\x00\x00\x00", b"[1, 2]", b"{" * 100_000])
def test_a_torn_line_is_left_out_and_swallows_no_other(tmp_path, torn):
    path = tmp_path / "a.jsonl"
    append_line(path, {"step": 1})
    with path.open("ab") as file:
        file.write(torn)

    append_line(path, {"step": 3})

    assert [line["step"] for line in read_lines(path)] == [1, 3]
    assert torn_lines(path) == 1


def test_a_line_that_is_still_being_written_is_not_read(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'{"step": 1}\n{"step": 2}')

    assert [line["step"] for line in read_lines(tmp_path / "a.jsonl")] == [1]
    assert torn_lines(tmp_path / "a.jsonl") == 1


def test_a_tail_yields_each_line_once_and_starts_over_with_a_new_file(tmp_path):
    path = tmp_path / "a.jsonl"
    tail = Tail(path)
    seen = [tail.new()]
    append_line(path, {"step": 1})
    with path.open("ab") as file:
        file.write(b'{"step":')
        seen.append(tail.new())
        file.write(b"2}\n")
    seen += [tail.new(), tail.new()]
    path.write_bytes(b'{"step":9}\n')

    seen.append(tail.new())

    assert [[line["step"] for line in lines] for lines in seen] == [[], [1], [2], [], [9]]


def test_a_carriage_return_in_a_torn_line_hides_nothing(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b'x\rx\n{"step":1}\n')

    assert [line["step"] for line in Tail(tmp_path / "a.jsonl").new()] == [1]


def test_the_last_lines_of_a_long_file_are_whole(tmp_path):
    for step in range(100):
        append_line(tmp_path / "a.jsonl", {"step": step})

    assert [line["step"] for line in last_lines(tmp_path / "a.jsonl", size=40)] == [97, 98, 99]


def test_what_a_killed_write_left_is_swept_and_nothing_else(tmp_path):
    write_json(tmp_path / "a.json", {})
    (tmp_path / ".a.json.xyz.part").touch()
    (tmp_path / ".hidden").touch()

    sweep(tmp_path)

    assert sorted(path.name for path in tmp_path.iterdir()) == [".hidden", "a.json"]


NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}
READS = {
    "record": records.read_json,
    "lines": lambda path: list(read_lines(path)),
    "growing": lambda path: Tail(path).new(),
    "torn": torn_lines,
    "count": records.count_lines,
    "writing": lambda path: append_line(path, {}),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_in_place_of_a_record_is_named_and_not_waited_for(tmp_path, make, read):
    place = tmp_path / "summary.json"
    make(place)

    with pytest.raises(LabError, match=r"summary\.json: .*is not a regular file"):
        read(place)
    assert records.last_lines(place) == []


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_a_socket_in_place_of_a_record_is_named(tmp_path, monkeypatch, read):
    monkeypatch.chdir(tmp_path)  # a socket's name is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("a.json")

    with pytest.raises(LabError, match=r"a\.json: .*is not a regular file"):
        read(tmp_path / "a.json")


def test_a_line_longer_than_any_record_is_torn_and_swallows_no_other(tmp_path, monkeypatch):
    monkeypatch.setattr(regular, "LONGEST_LINE_BYTES", 64)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1}\n' + b'{"step": 9}' * 60 + b'\n{"step": 2}\n' + b"\0" * 100)

    assert [line["step"] for line in read_lines(path)] == [1, 2]
    assert [line["step"] for line in Tail(path).new()] == [1, 2]
    assert (torn_lines(path), records.count_lines(path)) == (2, 4)


def test_a_record_of_gigabytes_is_refused_unread(tmp_path):
    path = tmp_path / "summary.json"
    path.touch()
    os.truncate(path, 30 << 30)

    with pytest.raises(LabError, match="no record has 32,212,254,720 bytes"):
        records.read_json(path)


def test_a_number_that_no_float_can_be_is_refused_and_a_text_of_as_many_digits_is_read(tmp_path):
    path = tmp_path / "record.json"
    path.write_text('{"count": -' + "1" * 400 + "}")

    with pytest.raises(LabError, match="it holds a number of more than 300 digits"):
        read_json(path)

    path.write_text('{"text": "' + "1" * 400 + '", "count": -' + "7" * 300 + "}")
    assert read_json(path) == {"text": "1" * 400, "count": -int("7" * 300)}


def test_a_line_with_a_number_that_no_float_can_be_is_torn_and_costs_no_other(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": ' + "1" * 400 + '}\n{"step": 2}\n')

    assert list(read_lines(path)) == [{"step": 2}]
    assert torn_lines(path) == 1


UNREADABLE = {"a number of many digits": -(10**300), "lists in lists": json.loads("[" * 101 + "]" * 101)}


@pytest.mark.parametrize("value", UNREADABLE.values(), ids=UNREADABLE)
def test_what_would_not_be_read_again_is_not_written(tmp_path, value):
    record, lines = tmp_path / "record.json", tmp_path / "lines.jsonl"
    write_json(record, {"value": 10**300 - 1})
    append_line(lines, {"value": json.loads("[" * 99 + "]" * 99)})

    with pytest.raises(LabError, match=r"record\.json: cannot be recorded: it (holds a number|is nested) .*more than"):
        write_json(record, {"value": value})
    with pytest.raises(LabError, match=r"lines\.jsonl: cannot be recorded: it"):
        append_line(lines, {"value": value})

    assert read_json(record) == {"value": 10**300 - 1}
    assert len(list(read_lines(lines))) == 1


def test_what_is_larger_than_would_be_read_again_is_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr("lab.runs.records._LARGEST_RECORD_BYTES", 400)
    monkeypatch.setattr(regular, "LONGEST_LINE_BYTES", 64)
    record, lines = tmp_path / "record.json", tmp_path / "lines.jsonl"
    largest, longest = {"value": "x" * (400 - 18)}, {"value": "x" * (64 - 13)}
    write_json(record, largest)
    append_line(lines, longest)
    assert (record.stat().st_size, lines.stat().st_size) == (400, 64)

    with pytest.raises(LabError, match=r"record\.json: cannot be recorded: 401 bytes, and at most 400 are read"):
        write_json(record, {"value": largest["value"] + "x"})
    with pytest.raises(LabError, match=r"lines\.jsonl: cannot be recorded: 65 bytes, and at most 64 are read"):
        append_line(lines, {"value": longest["value"] + "x"})

    assert read_json(record) == largest
    assert list(read_lines(lines)) == [longest]


def test_a_line_that_is_nested_too_deeply_is_torn_and_costs_no_other(tmp_path):
    path = tmp_path / "lines.jsonl"
    path.write_text('{"loss": "NaN", "deep": ' + "[" * 150 + "]" * 150 + '}\n{"step": 2}\n')

    assert list(records.read_lines(path)) == [{"step": 2}]
    assert records.torn_lines(path) == 1

    path.write_text('{"deep": ' + "[" * 150 + "]" * 150 + '}\n{"step": 2}\n')
    assert list(records.read_lines(path)) == [{"step": 2}]
