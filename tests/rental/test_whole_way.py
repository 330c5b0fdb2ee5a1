"""The whole way of a rental when nothing goes wrong, and what it leaves behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.rental.facts import State
from rental.world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_run_is_rented_watched_collected_deleted_and_proved_gone(world):
    state = world.go()

    assert world.error is None
    assert (state.phase, state.exit_code) == ("finished", 0)
    assert list(world.missing) == []
    assert world.state is State.DELETED
    assert world.cloud.trace.count("create") == 1
    assert not any(machine.exists for machine in world.cloud.machines.values())
    assert (world.run.path / "checkpoint.pt").read_bytes() == b"w" * 5000


@pytest.mark.fault(43, "nothing is sent to it")
def test_nothing_is_sent_to_a_service_that_does_not_know_this_runs_nonce(world):
    world.cloud.trace.arm("agent.hello", times=10_000, answer=lambda hello: replace(hello, nonce="another"))

    world.go()

    asked = {name for _, name, _ in world.cloud.trace.calls if name.startswith("agent.")}
    assert asked == {"agent.hello"}
    assert "without this run's nonce" in " ".join(world.said)
    assert world.cloud.living() == []


def test_the_records_of_a_run_are_home_while_it_runs(world):
    backend = world.backend()
    world.submit(backend)
    for _ in range(3):
        world.clock.sleep(10)
        backend.state(world.receipt)

    assert world.run.metrics.read_text().count("\n") == 6
    assert world.state is State.RUNNING


def test_launchs_own_files_are_never_overwritten(world):
    world.cloud.script = replace(
        world.cloud.script, results={"config.json": b"changed", "outcome.json": b"changed", "summary.json": b"{}"}
    )

    world.go()

    assert world.run.config.read_text() == '{"schema": 1}'
    assert not world.run.outcome.exists()
    assert world.run.summary.exists()


def test_a_resumed_run_gets_what_its_earlier_attempt_left_on_a_new_machine(world):
    world.go()
    world.write_job(attempt=2)

    world.go()

    first, second = world.cloud.machines.values()
    assert "earlier" not in first.disk
    assert "earlier" in second.disk
    assert world.state is State.DELETED
    assert world.facts.deleted == ("pod1", "pod2")
    assert not (world.store / "rentals" / world.run.id / "earlier.tar").exists()
    assert world.facts.max_dollars >= world.cloud.bill()


def test_a_resumed_run_goes_on_where_its_stopped_machine_is(world):
    backend = world.backend()
    world.submit(backend)
    backend.halt(world.receipt)
    world.write_job(attempt=2)

    world.go()

    (machine,) = world.cloud.machines.values()
    assert len(machine.disk["starts"]) == 2
    assert "earlier" not in machine.disk
    assert world.state is State.DELETED
