"""How the lines of metrics.jsonl become W&B's rows."""

from __future__ import annotations

import os

import pytest

from lab.errors import LabError
from lab_wandb import rows

NO_FILES = {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_metrics_that_are_no_file_are_named_and_not_waited_for(tmp_path, make):
    path = tmp_path / "metrics.jsonl"
    make(path)

    for read in (lambda path: list(rows.read(path, 0, whole=True)), lambda path: rows.prefix_sha256(path, 10)):
        with pytest.raises(LabError, match=r"metrics\.jsonl: cannot be read: is not a regular file"):
            read(path)
