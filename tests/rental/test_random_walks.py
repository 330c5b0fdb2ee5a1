"""Five hundred lives of a rental, each with accidents of its own: nothing is lost and nothing bills on."""

from __future__ import annotations

import contextlib
import random
import tempfile
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.rental.agent_contract import AgentRefused, AgentUnreachable
from lab.rental.provider import (
    Conflict,
    Forbidden,
    Gone,
    NoCapacity,
    NoCredit,
    NotAuthorized,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
)
from rental import invariants
from rental.fake_cloud import JobScript
from rental.virtual import Killed
from rental.world import World

WALKS = 500
BATCH = 50
RAM = Path("/dev/shm")
LOST = UncertainOutcome("500")
NO_ANSWER = AgentUnreachable("HTTP 502")
CREATE = [NoCapacity("full"), Forbidden("pool"), NoCredit("402"), RequestRejected("422"), Gone("410"), LOST,
          RateLimited("429", 20.0), Unreachable("1010")]  # fmt: skip
READ = [Unreachable("502"), RateLimited("429", 20.0), NotAuthorized("401"), Gone("410")]
ACT = [LOST, Unreachable("502"), RateLimited("429", 20.0), Conflict("409"), NotAuthorized("401")]
AGENT = [NO_ANSWER, NO_ANSWER, AgentRefused("unauthorized", "another run")]
TALK = ("hello", "limits", "present", "put_chunk", "commit", "start", "poll", "manifest", "blob", "pin", "variables")


def an_accident(world, dice):
    """Arm one fault of any kind."""
    trace, times = world.cloud.trace, dice.choice((1, 1, 2, 5, 20))
    kind = dice.choice((0, 1, 2, 3, 3, 4, 5, 5, 6, 6, 7))
    if kind == 0:
        trace.arm("create", nth=dice.randint(1, 2), **{dice.choice(("before", "after")): dice.choice(CREATE[-3:])})
    elif kind == 1:
        trace.arm("create", nth=dice.randint(1, 2), before=dice.choice(CREATE))
    elif kind == 2:
        trace.arm(dice.choice(("get", "list")), nth=dice.randint(1, 30), times=times, before=dice.choice(READ))
    elif kind == 3:
        operation, error = dice.choice(("stop", "start", "delete")), dice.choice(ACT)
        trace.arm(operation, times=times, **{dice.choice(("before", "after")): error})
    elif kind == 4:
        trace.arm(dice.choice(("stop", "delete")), times=times, instead=lambda _: None)
    elif kind == 5:
        operation, error = f"agent.{dice.choice(TALK)}", dice.choice(AGENT)
        trace.arm(operation, nth=dice.randint(1, 12), times=times, **{dice.choice(("before", "after")): error})
    elif kind == 6:
        act = dice.choice((restart_one, vanish_one, halt_one))
        trace.arm(dice.choice(("get", "agent.poll", "agent.blob", "agent.put_chunk")), nth=dice.randint(1, 12),
                  act=lambda: act(world))  # fmt: skip
    else:
        trace.arm("agent.blob", times=times, answer=lambda pieces: [b"?" + piece[1:] for piece in pieces])


def restart_one(world):
    for machine in world.cloud.living()[:1]:
        machine.restart()


def vanish_one(world):
    for machine in world.cloud.living()[:1]:
        machine.vanish()


def halt_one(world):
    for machine in world.cloud.living()[:1]:
        machine.halt()


def a_strange_cloud(world, dice):
    """How this cloud is from the beginning."""
    cloud = world.cloud
    cloud.get_lag, cloud.list_lag = dice.choice((0, 0, 10)), dice.choice((0, 0, 60))
    cloud.linger, cloud.boot_seconds = dice.choice((0, 0, 60)), dice.choice((10, 60, 200))
    cloud.self_stop_works = dice.random() < 0.8
    cloud.second_way = dice.random() < 0.3
    cloud.no_gpu_on_start = dice.random() < 0.2
    cloud.price = dice.choice((2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 9.0))
    cloud.never_ready = dice.random() < 0.05
    code = dice.choice((0, 0, 0, 1, None))
    cloud.script = JobScript(dice.choice((20.0, 120.0, 5000.0)), code, results={"summary.json": b"{}", "a.png": b"a"})
    if dice.random() < 0.05:
        cloud.change_created = {"dollars_per_hour": None}


def a_command(world, dice):
    """What a person might do next, in a process that may be killed at any moment."""
    if dice.random() < 0.3:
        world.cloud.trace.kill_after = len(world.cloud.trace.calls) + dice.randint(1, 25)
    backend, receipt = world.backend(), world.receipt
    commands = [
        lambda: world.follow(backend), lambda: world.follow(backend), backend.owned, lambda: backend.halt(receipt),
        lambda: backend.collect(receipt), lambda: backend.start(receipt), lambda: backend.start(receipt),
        lambda: backend.collect(receipt), lambda: backend.stop(receipt),
        lambda: backend.delete(receipt), lambda: backend.reconcile(receipt), lambda: backend.terminate(receipt),
    ]  # fmt: skip
    with contextlib.suppress(LabError, Killed):
        dice.choice(commands)()
    world.cloud.trace.kill_after = None


def time_passes(world, dice):
    """Nobody does anything, or the laptop is closed, or its clock is wrong."""
    kind = dice.randrange(4)
    if kind == 0:
        world.clock.laptop_sleeps(dice.choice((60, 7200)))
    elif kind == 1:
        world.clock.jump = dice.choice((-3600.0, 0.0, 3600.0))
    else:
        world.clock.sleep(dice.choice((5, 60, 1000)))


def cured(world):
    """All accidents are over."""
    ending = ("stop", "delete", "get", "list", "create")
    world.hindered = any(fault.fired for fault in world.cloud.trace.faults if fault.operation in ending)
    world.cloud.trace.faults.clear()
    world.cloud.trace.kill_after = None
    world.cloud.offline, world.cloud.key, world.clock.jump = False, "key-1", 0.0


def somebody_guards(world):
    """Whether the machine's own guard came to life, and the cloud does as it is told."""
    return world.cloud.self_stop_works and not world.cloud.never_ready and not world.hindered


def walk(seed, folder):
    """One life. Returns the world at its end."""
    dice = random.Random(seed)
    world = World(folder, max_price=dice.choice((None, 2.5)), keep=dice.random() < 0.2)
    if dice.random() < 0.3:
        world.write_job(max_dollars=dice.choice((0.05, 0.3)))
    a_strange_cloud(world, dice)
    for _ in range(dice.randrange(7)):
        an_accident(world, dice)
    if dice.random() < 0.3:
        world.cloud.trace.kill_after = dice.randint(1, 60)
    with contextlib.suppress(LabError, Killed):
        world.submit()
    world.cloud.trace.kill_after = None
    for _ in range(dice.randrange(8)):
        dice.choice((a_command, a_command, time_passes))(world, dice)
        if world.backend().journal(world.run.id).exists():
            invariants.check(world, at_rest=False)
    cured(world)
    world.settle()
    world.clock.sleep(2 * 86_400)
    world.any_command()
    world.settle()
    return world


@pytest.mark.parametrize("first", range(0, WALKS, BATCH))
def test_every_life_of_a_rental_ends_with_nothing_lost_and_nothing_billing(first):
    with tempfile.TemporaryDirectory(dir=RAM if RAM.is_dir() else None) as folder:
        for seed in range(first, first + BATCH):
            try:
                world = walk(seed, Path(folder) / str(seed))
                if world.backend().journal(world.run.id).exists():
                    invariants.check(world)
                    assert not world.cloud.living(), world.state
                    if somebody_guards(world):
                        unguarded = world.cloud.price * world.cloud.boot_seconds / 3600
                        invariants.the_bill_is_capped(world, invariants.POLL_DOLLARS + unguarded)
            except Exception as error:
                raise AssertionError(f"seed {seed}") from error
