"""The settings of the worker's process: before torch is there, and never against the user."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

from lab.worker.process import keep_large_buffers, let_threads_sleep


def test_idle_threads_sleep_unless_the_environment_says_otherwise(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    let_threads_sleep()
    chosen = os.environ["OMP_WAIT_POLICY"]
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    let_threads_sleep()

    assert chosen == "PASSIVE"
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"


def test_the_worker_can_set_them_before_torch_is_imported():
    code = "import sys, lab.worker.__main__, lab.worker.preflight; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_large_buffers_are_kept_where_glibc_allocates():
    assert keep_large_buffers() is (platform.libc_ver()[0] == "glibc")
