"""No space: whatever can still be written, a command says what failed, and leaves no run half-made and no part."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from lab.runs import records
from lab.runs.directory import every
from lab.runs.status import status

QUICK = """
[trackers]
mlflow = false
[[stages]]
name = "only"
run = ["sh", "-c", "yes | head -c 3000000"]
"""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, resource.RLIM_INFINITY))
from lab.cli import main
sys.argv = ["lab", *sys.argv[1:]]
main()
"""


def limited(project, size, *arguments):
    """One command in whose processes no file can grow beyond `size` bytes, as on a disk that is full by then."""
    command = [sys.executable, "-B", "-c", LIMITED.format(bytes=size), *arguments]
    return subprocess.run(command, cwd=project, env=os.environ, capture_output=True, text=True, check=False)


def parts(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((".part", ".tmp"))]


@pytest.mark.parametrize("size", [0, 300, 30_000, 2_000_000, 10_000_000])
def test_where_files_can_grow_no_further_a_run_fails_with_a_reason_or_is_whole(project, lab, size):
    (project / "experiments" / "quick.toml").write_text(QUICK)

    done = limited(project, size, "run", "quick")

    assert "Traceback" not in done.stderr
    assert "bug in lab" not in done.stderr
    assert parts(project) == []
    runs = every(project / ".runs")
    assert sorted(os.listdir(project / ".runs")) == sorted(run.id for run in runs)
    for run in runs:
        assert status(run).word in ("completed", "failed", "lost")
        assert records.read_json(run.config)
    if done.returncode:
        assert done.returncode == 1
        assert any(word in done.stderr + done.stdout for word in ("File too large", "SIGXFSZ"))
    assert lab("runs").code == 0
