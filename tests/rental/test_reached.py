"""Machines whose address is known late, or is one that others can read."""

from __future__ import annotations

import pytest

from lab.rental.agent_contract import AgentUnreachable
from lab.rental.facts import State
from lab.rental.provider import Unreachable
from lab.rental.reached import reached
from rental.world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_machine_without_an_address_is_waited_for_as_one_that_boots(world):
    given, usual = [], world.cloud.agent_url

    def late(machine_id, port):
        given.append(world.clock.monotonic())
        if len(given) < 5:
            raise Unreachable("it has no address yet")
        return usual(machine_id, port)

    world.cloud.agent_url = late

    state = world.go()

    assert world.error is None
    assert (state.phase, state.exit_code, world.state) == ("finished", 0, State.DELETED)


def test_a_machine_that_never_gets_an_address_is_deleted_with_the_reason(tmp_path):
    world = World(tmp_path, ready_minutes=5.0)

    def never(machine_id, port):
        raise Unreachable("it has no address yet")

    world.cloud.agent_url = never

    world.go()

    assert world.cloud.living() == []
    reasons = [record["data"].get("reason", "") for record in world.backend().journal(world.run.id).records()]
    assert any("the cloud gives no address for it: it has no address yet" in reason for reason in reasons)


def test_nothing_is_sent_over_a_way_that_others_can_read_and_the_machine_is_deleted(world):
    world.cloud.agent_url = lambda machine_id, port: f"http://203.0.113.7:{port}"

    world.go()

    assert "neither https nor on this machine" in world.facts.reason
    assert (world.cloud.trace.count("create"), world.cloud.living()) == (1, [])
    assert not [name for _, name, _ in world.cloud.trace.calls if name.startswith("agent.")]


def test_an_address_that_was_found_is_kept_and_one_that_was_not_is_asked_for_again():
    asked, answers = [], [Unreachable("not yet"), "https://machine.example"]

    def address():
        asked.append(1)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = reached(address, lambda url: {"url": url})
    with pytest.raises(AgentUnreachable, match="not yet"):
        agent.get("url")

    assert (agent.get("url"), agent.get("url")) == ("https://machine.example", "https://machine.example")
    assert len(asked) == 2
