"""What a command does when its output is taken by nobody: a full disk, a reader that left, a stream that was closed."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
import sample_runs

from lab.cli import run_flow, runs_logs, streams
from lab.cli.run_view import Silent
from lab.launch import follow
from lab.launch.follow import Ending

VERSION = [sys.executable, "-m", "lab", "--version"]
FULL = "Error: standard output cannot be written: No space left on device\n"


@pytest.fixture
def put(monkeypatch):
    """Put a guarded stream that goes to this descriptor in the place of standard output or error."""

    def put(name, descriptor, *, closed=False):
        stream = io.TextIOWrapper(io.BufferedWriter(streams.Guarded(descriptor, closed=closed)), line_buffering=True)
        monkeypatch.setattr(sys, name, stream)

    return put


@pytest.fixture
def full():
    descriptor = os.open("/dev/full", os.O_WRONLY)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def unread():
    """A pipe whose reader left."""
    reading, writing = os.pipe()
    os.close(reading)
    yield writing
    os.close(writing)


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-"])
def test_a_closed_standard_stream_is_filled_and_no_file_takes_its_number(stream):
    look = (
        "import os, lab.cli as cli; cli.app = lambda **_: os._exit(10 * all(os.path.exists(f'/proc/self/fd/{n}') "
        "for n in range(3)) + (os.readlink(f'/proc/self/fd/{os.environ[\"AT\"]}') == '/dev/null')); cli.main()"
    )
    number = {"<&-": "0", ">&-": "1", "2>&-": "2"}[stream]

    ended = subprocess.run(["sh", "-c", f"exec \"$0\" -c \"$1\" {stream}", sys.executable, look],
                           env={**os.environ, "AT": number}, check=False)  # fmt: skip

    assert ended.returncode == 11


@pytest.mark.parametrize(
    ("shell", "code", "told"),
    [
        ("{} >/dev/full", 1, FULL),
        ("{} >&-", 1, "Error: standard output cannot be written: it was closed\n"),
        ("({}; echo $? >&2) | true", 0, "141\n"),
        ("{} 2>/dev/full", 0, ""),
        ("{} 2>&-", 0, ""),
    ],
)
def test_what_became_of_the_output_is_in_the_exit_code_and_in_words(shell, code, told):
    command = shell.format('sleep 0.1; "$0" "$@"' if "|" in shell else '"$0" "$@"')

    ended = subprocess.run(["sh", "-c", command, *VERSION], capture_output=True, text=True, check=False)

    assert (ended.returncode, ended.stderr.replace("What it printed is lost, and nothing else.\n", ""
    )) == (code, told)  # fmt: skip


def test_what_stops_nothing_is_not_stopped_by_a_full_standard_error(put, full, capsys):
    put("stderr", full)

    sys.stderr.write("progress\n")
    sys.stderr.write("again\n")

    assert streams.ending(0) == 0


def test_a_reader_that_left_ends_quietly_and_a_failure_keeps_its_own_code(put, unread, capsys):
    put("stdout", unread)

    sys.stdout.write("much\n")

    assert streams.ending(0) == streams.UNREAD == 141
    assert streams.ending(5) == 5
    assert capsys.readouterr().err == ""


def test_nothing_is_lost_where_nothing_was_printed(put, full, capsys):
    put("stdout", full, closed=True)

    assert streams.ending(0) == 0


@pytest.mark.parametrize(("quiet", "code"), [(False, 0), (True, 1)])
def test_the_code_of_a_run_is_the_runs_unless_its_id_was_all_that_was_wanted(
    tmp_path, monkeypatch, put, full, quiet, code
):
    run = sample_runs.write(tmp_path)
    monkeypatch.setattr(follow, "execute", lambda *_: Ending("completed", "", 0))
    monkeypatch.setattr(run_flow, "_report", lambda *_: None)
    put("stdout", full)

    ended = run_flow.follow(run, None, None, Silent(), (), {}, tmp_path, quiet=quiet, as_json=False)

    assert streams.ending(ended) == code


def test_logs_that_nobody_reads_any_more_are_not_followed_for_ever(tmp_path, put, unread):
    run = sample_runs.write(tmp_path)
    run.outcome.unlink()
    put("stdout", unread)

    with pytest.raises(SystemExit):
        runs_logs.show(run, None, None, follow=True, raw=True, as_json=False)
