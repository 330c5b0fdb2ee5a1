"""The controller is killed after every record and after every side effect; then somebody gives any command."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.rental.provider import NoCapacity, UncertainOutcome
from rental import invariants
from rental.fake_cloud import JobScript
from rental.virtual import Killed
from rental.world import World

RAM = Path("/dev/shm")
DAY = 86_400.0
COMMANDS = {
    "list": lambda world, backend: backend.owned(),
    "monitor": lambda world, backend: world.follow(backend),
    "collect": lambda world, backend: backend.collect(world.receipt),
    "stop": lambda world, backend: backend.halt(world.receipt),
    "terminate": lambda world, backend: backend.terminate(world.receipt),
}


def plain(world):
    """Nothing else goes wrong."""


def unlucky(world):
    """The first candidate cannot be had, the answer to the second request is lost, and its results arrive broken."""
    world.cloud.trace.arm("create", before=NoCapacity("no instances"))
    world.cloud.trace.arm("create", nth=2, after=UncertainOutcome("500"))
    world.cloud.trace.arm("agent.blob", times=40, answer=lambda pieces: [b"?" + piece[1:] for piece in pieces])


@pytest.fixture
def make():
    """Worlds in memory, because thousands of synced writes on a disk take minutes."""
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as folder:
        count = iter(range(100_000))

        def world(prepare):
            made = World(Path(folder) / str(next(count)))
            made.cloud.script = JobScript(seconds=30.0, results={"summary.json": b"{}\n", "plot.png": b"p" * 90})
            prepare(made)
            return made

        yield world


def killed(world):
    """`lab run` until it dies; whether it did."""
    try:
        world.go()
    except Killed:
        return True
    return False


def afterwards(world, command):
    """One command, then a day in which nobody looks, then another command."""
    world.cloud.trace.kill_after = world.kill_after_sync = None
    with contextlib.suppress(LabError):
        COMMANDS[command](world, world.backend())
    invariants.check(world, at_rest=False)
    assert len(world.cloud.living()) <= 1
    world.clock.sleep(DAY)
    world.any_command()
    world.settle()
    invariants.check(world)
    assert not world.cloud.living() or world.state == "needs attention"


def submitted(world):
    return world.backend().journal(world.run.id).exists()


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("prepare", [plain, unlucky])
@pytest.mark.fault(66, "deleted, stopped or no machine")
def test_killed_after_any_record_nothing_is_lost_and_nothing_bills(make, prepare, command):
    whole = make(prepare)
    whole.go()

    for point in range(1, whole.synced + 1):
        world = make(prepare)
        world.kill_after_sync = point
        assert killed(world)
        if submitted(world):
            afterwards(world, command)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("prepare", [plain, unlucky])
@pytest.mark.fault(66, "deleted, stopped or no machine")
def test_killed_after_any_side_effect_nothing_is_lost_and_nothing_bills(make, prepare, command):
    whole = make(prepare)
    whole.go()

    for point in range(1, len(whole.cloud.trace.calls) + 1):
        world = make(prepare)
        world.cloud.trace.kill_after = point
        assert killed(world)
        if submitted(world):
            afterwards(world, command)
