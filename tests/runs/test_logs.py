from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.runs import logs, regular

BYTES = st.text(alphabet="ab\n").map(str.encode)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return tmp_path_factory.mktemp("logs") / "train.log"


@given(content=BYTES, lines=st.integers(1, 8), block=st.integers(1, 4))
def test_the_last_lines_are_those_that_reading_the_whole_would_give(log, content, lines, block):
    log.write_bytes(content)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "BLOCK_BYTES", block)
        found = logs.end(log, lines, within=1000)

    assert found.lines == content.decode().splitlines()[-lines:]
    assert found.earlier_bytes == len(content) - len(b"".join(content.splitlines(keepends=True)[-lines:]))
    assert not found.cut


@given(content=BYTES, lines=st.integers(1, 8), within=st.integers(1, 20))
def test_no_further_back_than_it_may_it_looks_and_says_when_that_was_too_short(log, content, lines, within):
    log.write_bytes(content)

    found = logs.end(log, lines, within)

    assert found.lines == content[-within:].decode().splitlines()[-lines:]
    assert found.cut == (found.earlier_bytes > 0 and found.earlier_bytes == len(content) - within)


def test_of_what_carriage_returns_overwrote_only_the_last_is_a_line(log):
    log.write_bytes(b"start\r\n 5%\r50%\r100%\r\n1\r2")

    assert logs.end(log).lines == ["start", "100%", "2"]
    assert logs.end(log, 2).lines == ["100%", "2"]
    assert logs.end(log, 2, raw=True).lines == [" 5%\r50%\r100%\r", "1\r2"]


def test_a_log_of_gigabytes_without_a_line_end_is_cut(log):
    log.write_bytes(b"first\n")
    os.truncate(log, 30 << 30)

    found = logs.end(log, 15)

    assert found == logs.End(["\0" * logs.SHOWN_BYTES], (30 << 30) - logs.SHOWN_BYTES, cut=True)


def test_lines_come_one_at_a_time_and_an_endless_one_loses_its_end(log, monkeypatch):
    monkeypatch.setattr(regular, "LONGEST_LINE_BYTES", 8)
    log.write_bytes(b"one\r\n1%\r2%\n" + b"x" * 100 + b"\n\xff\nlast")

    assert list(logs.read(log)) == ["one", "1%", "2%", "x" * 8, "\N{REPLACEMENT CHARACTER}", "last"]


def test_of_what_is_no_file_there_are_no_lines(tmp_path):
    os.mkfifo(tmp_path / "pipe.log")

    assert list(logs.read(tmp_path / "pipe.log")) == []
    with pytest.raises(OSError, match="is not a regular file"):
        logs.end(tmp_path / "pipe.log")
