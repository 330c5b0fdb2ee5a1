"""A rented machine played by this computer: what it shows the main process, and what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import psutil
import pytest

from lab.conformance import StandIn
from lab.rental import SelfStop

ENVIRONMENT = {"LAB_WORKSPACE": "/data/lab", "LAB_RUN_ID": "run1", "LAB_AGENT_PORT": "8765", "OTHER": "as it is"}
TELL = """
import json, os, pathlib, subprocess
pathlib.Path(os.environ["LAB_WORKSPACE"]).mkdir(parents=True, exist_ok=True)
seen = {**os.environ, "gpus": subprocess.run(["nvidia-smi"], capture_output=True, text=True).stdout.splitlines()}
print(json.dumps(seen), flush=True)
subprocess.run(["sleep", "600"])
"""
LEAVE = """
import subprocess
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
"""


@pytest.fixture
def machine(tmp_path):
    machine = StandIn(tmp_path / "machine", ["L4", "L4"])
    yield machine
    machine.discard()


def boot(machine, code, **environment):
    machine.boot(["python3", "-c", code], {**ENVIRONMENT, **environment}, port=8765, mount_path="/data")


def told(machine):
    """The first whole line of its log."""
    until = time.monotonic() + 30
    while "\n" not in machine.log:
        assert time.monotonic() < until, "it says nothing"
        time.sleep(0.02)
    return json.loads(machine.log.splitlines()[0])


def test_the_main_process_sees_its_own_disk_port_and_gpus_and_nothing_of_ours(machine, monkeypatch):
    monkeypatch.setenv("MY_KEY", "secret")

    boot(machine, TELL)
    seen = told(machine)

    assert seen["LAB_WORKSPACE"] == str(machine.folder / "disk" / "lab")
    assert machine.address == f"http://127.0.0.1:{seen['LAB_AGENT_PORT']}"
    assert (seen["OTHER"], seen["gpus"], "MY_KEY" in seen) == ("as it is", ["L4", "L4"], False)


def test_halting_ends_every_process_and_keeps_the_disk(machine):
    boot(machine, TELL)
    told(machine)
    before = [process.pid for process in psutil.Process().children(recursive=True)]

    machine.halt()

    assert not machine.alive
    assert (machine.folder / "disk" / "lab").is_dir()
    assert len(before) > 1
    assert not [pid for pid in before if psutil.pid_exists(pid)]


def test_what_left_its_session_ends_with_its_machine(machine):
    boot(machine, LEAVE)

    orphan = told(machine)
    machine.halt()

    assert not psutil.pid_exists(orphan)


def test_it_stops_itself_by_the_ways_that_its_provider_names(machine, tmp_path):
    boot(machine, TELL, MACHINE_ID="m1")

    heard = machine.stop_itself(
        [SelfStop(argv=("no-such-program",)), SelfStop(argv=("touch", f"{tmp_path}/{{MACHINE_ID}}"))]
    )

    assert (tmp_path / "m1").exists()
    assert "way 1: FileNotFoundError" in heard[0]


def test_discarding_deletes_the_disk(machine):
    boot(machine, TELL)
    told(machine)

    machine.discard()

    assert not machine.folder.exists()


def test_nothing_lives_on_when_the_test_that_booted_it_is_killed(tmp_path):
    code = f"""
import sys, time
from pathlib import Path
from lab.conformance import StandIn
from lab.rental import SelfStop
machine = StandIn(Path({str(tmp_path / "machine")!r}), ["L4"])
environment = {ENVIRONMENT!r}
machine.boot(["sleep", "600"], environment, port=8765, mount_path="/data")
print("booted", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as test:
        assert test.stdout.readline() == b"booted\n"
        until = time.monotonic() + 30
        while len(started := psutil.Process(test.pid).children(recursive=True)) < 2:
            assert time.monotonic() < until, "it never started"
        os.kill(test.pid, 9)

    _, alive = psutil.wait_procs(started, timeout=30)
    assert alive == []
