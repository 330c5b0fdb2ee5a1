"""The whole way of a rental when nothing goes wrong, and what it leaves behind."""

from __future__ import annotations

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
