from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

from lab.launch import scratch

LEAVES = """
import os, sys, tempfile
from lab.launch.scratch import own_folder
with own_folder():
    tempfile.mkdtemp(prefix="tmp-of-a-library")
    {end}
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def left(temporary, end):
    subprocess.run([sys.executable, "-c", LEAVES.format(end=end)], check=False, stderr=subprocess.DEVNULL)
    return [path.name for path in temporary.glob("*/*")]


@pytest.mark.parametrize("end", ["pass", "sys.exit(3)", "raise KeyboardInterrupt"])
def test_what_a_library_leaves_is_removed_when_the_process_ends(temporary, end):
    assert left(temporary, end) == []
    assert list(temporary.iterdir()) == []


def test_what_a_killed_process_left_is_removed_by_the_next(temporary):
    found = left(temporary, "os.kill(os.getpid(), 9)")

    with scratch.own_folder() as own:
        now = list(temporary.iterdir())

    assert len(found) == 1
    assert now == [own]


def test_the_folder_of_a_living_process_and_of_anybody_else_stays(temporary):
    (temporary / "lab-else").mkdir()
    (temporary / f"{scratch.PREFIX}link").symlink_to("lab-else")

    with scratch.own_folder() as own:
        (own / "file").touch()
        temporary_now, variable = tempfile.gettempdir(), os.environ["TMPDIR"]
        tempfile.tempdir = str(temporary)
        scratch.sweep()

    assert (own / "file").is_file()
    assert temporary_now == variable == str(own)
    assert os.environ["TMPDIR"] == tempfile.gettempdir() == str(temporary)
    assert (temporary / "lab-else").is_dir()
