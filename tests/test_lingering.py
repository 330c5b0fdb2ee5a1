"""A stage's process ends with its code, whatever its parts left at work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from lab import __main__ as command_line

LEFT = """
import atexit, sys, threading, time
from lab import lingering
lingering.GRACE_SECONDS = 0.2
{left}
lingering.exit_soon(3)
"""


@pytest.mark.parametrize(
    ("left", "said"),
    [
        ("threading.Thread(target=time.sleep, args=(600,), name='poll').start()", "in spite of poll, still at work"),
        ("atexit.register(time.sleep, 600)", "in spite of an exit handler that does not return"),
        ("sys.stderr = None; atexit.register(time.sleep, 600)", "in spite of an exit handler"),
        ("import os; os.close(2); atexit.register(time.sleep, 600)", ""),
    ],
)
def test_what_a_part_left_at_work_does_not_keep_the_process(left, said):
    done = subprocess.run(
        [sys.executable, "-c", LEFT.format(left=left)], capture_output=True, text=True, timeout=20, check=False
    )

    assert done.returncode == 3
    assert said in done.stderr
    assert done.stderr.startswith("ended 0.2 s after its work was done") or not said


def test_a_process_that_leaves_nothing_ends_at_once_and_says_nothing():
    code = "from lab import lingering; lingering.exit_soon(3)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (3, "", "")


STAGE = """
import runpy, sys
from lab import lingering
lingering.exit_soon = lambda code: print("ends soon with", code)
sys.argv = ["stage", "no-run"]
runpy.run_module("{module}", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["lab.worker", "lab.worker.preflight"])
def test_the_stages_of_the_worker_end_soon(module, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", STAGE.format(module=module)],
        capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path,
    )  # fmt: skip

    assert done.stdout == "ends soon with 2\n"
    assert "no-run" in done.stderr


@pytest.mark.parametrize(("stage", "codes"), [("prepare", [0]), (None, [])])
def test_the_command_line_ends_soon_as_a_stage_and_waits_for_threads_of_a_persons_command(stage, codes, monkeypatch):
    soon = []
    monkeypatch.setattr("lab.lingering.exit_soon", soon.append)
    monkeypatch.setattr(sys, "argv", ["lab", "--version"])
    monkeypatch.delenv("LAB_STAGE", raising=False)
    if stage:
        monkeypatch.setenv("LAB_STAGE", stage)

    with pytest.raises(SystemExit) as ended:
        command_line.main()

    assert (soon, ended.value.code) == (codes, 0)
