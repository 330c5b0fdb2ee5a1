"""Money: caps checked at once, ceilings on both sides, every dollar accounted to a phase."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lab.errors import LabError, StillBilling
from lab.rental import cost
from lab.rental.facts import Facts, State
from rental import invariants
from rental.fake_cloud import JobScript
from rental.virtual import Killed
from rental.world import World

HOUR = 3600.0


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_machine_dearer_than_the_cap_is_deleted_before_anything_is_sent(tmp_path):
    world = World(tmp_path, max_price=2.5)
    world.cloud.price = 2.6

    world.go()

    assert "above the cap of $2.500/h" in world.error.what
    assert world.cloud.trace.count("agent.hello") == 0
    assert world.cloud.bill() == 0
    invariants.check(world)


def test_without_a_cap_a_machine_may_not_be_much_dearer_than_it_was_listed(world):
    world.cloud.price = 2.4

    world.go()

    assert world.state is State.NO_MACHINE
    assert world.cloud.bill() == 0


def test_candidates_above_the_cap_are_not_even_asked_for(tmp_path):
    world = World(tmp_path, max_price=1.0)

    error = world.attempt(world.submit)

    assert "costs at least $2.00/h" in str(error)
    assert world.cloud.trace.count("create") == 0


def test_a_price_that_rises_while_it_boots_ends_it(tmp_path):
    world = World(tmp_path, max_price=2.5)
    world.cloud.trace.arm("get", nth=3, answer=lambda machine: replace(machine, dollars_per_hour=5.0))

    world.go()

    assert "costs $5.000/h" in " ".join(world.said)
    assert world.cloud.machines["pod1"].gone_at is not None


def test_the_quote_is_the_most_that_it_can_cost(world):
    quote = world.backend().quote(world.job)

    assert quote.dollars_per_hour == 2.0
    assert quote.max_dollars == pytest.approx(2.1 * 1.1 * (1200 + 3600 + 1800) / HOUR)
    world.cloud.script = JobScript(seconds=1e9)
    world.go()
    assert world.cloud.bill() <= quote.max_dollars


@pytest.mark.parametrize("dollars", [0.2, 0.5, 1.0])
def test_at_the_ceiling_the_job_saves_its_results_come_home_and_the_bill_stops(world, dollars):
    world.write_job(max_dollars=dollars, seconds=36_000.0)
    world.cloud.script = JobScript(seconds=1e9)

    state = world.go()

    assert state.exit_code == 143
    assert world.state is State.DELETED
    invariants.the_bill_is_capped(world)
    invariants.check(world)


def test_the_machine_keeps_the_ceiling_when_nobody_watches(world):
    world.write_job(max_dollars=0.5, seconds=36_000.0)
    world.cloud.script = JobScript(seconds=1e9)
    world.submit()

    world.clock.sleep(86_400)
    world.any_command()

    assert world.state is State.STOPPED
    invariants.the_bill_is_capped(world)


def test_a_silent_machine_is_stopped_at_the_ceiling(world):
    world.write_job(max_dollars=0.5)
    world.cloud.self_stop_works = False
    world.cloud.script = JobScript(seconds=1e9)
    backend = world.backend()
    world.submit(backend)
    world.cloud.machines["pod1"].mute = True

    world.attempt(lambda: world.follow(backend))

    assert world.state is State.STOPPED
    invariants.the_bill_is_capped(world)


def test_a_machine_that_nobody_reaches_ends_by_its_own_lease(world):
    world.submit()
    machine = world.cloud.machines["pod1"]
    world.cloud.script = JobScript(seconds=10.0)

    world.clock.sleep(3 * HOUR)

    assert machine.status == "stopped"
    assert world.cloud.bill() <= 2.0 * (60 + 10 + 900 + 1) / HOUR


def test_collecting_later_may_cost_more_than_was_agreed_and_says_so(world):
    world.write_job(max_dollars=0.3, seconds=36_000.0)
    world.cloud.script = JobScript(seconds=1e9)
    world.submit()
    world.clock.sleep(86_400)
    world.any_command()

    world.backend().collect(world.receipt)

    assert world.state is State.DELETED
    assert any("is raised to" in line for line in world.said)


def test_a_stopped_machine_names_the_price_of_its_disk(world):
    world.submit()
    world.backend().halt(world.receipt)

    assert any("costs $0.14 a day" in line for line in world.said)
    assert json.loads(world.run.resource.read_text())["stopped_dollars_per_hour"] == pytest.approx(0.006)


def test_results_that_are_only_there_are_not_deleted_without_a_persons_word(world):
    world.submit()

    with pytest.raises(StillBilling, match="results are only on machine pod1"):
        world.backend().delete(world.receipt)

    assert world.cloud.trace.count("delete") == 0
    world.backend().terminate(world.receipt)
    assert world.state is State.DELETED


@pytest.mark.parametrize("command", ["terminate", "delete", "halt"])
def test_ending_twice_is_as_good_as_once(world, command):
    world.go()
    for _ in range(2):
        getattr(world.backend(), command)(world.receipt)

    assert world.cloud.trace.count("delete") == 1


def test_a_machine_deleted_by_hand_is_found_gone_by_the_proof(world):
    world.submit()
    world.backend().halt(world.receipt)
    world.cloud.machines["pod1"].vanish()

    for _ in range(2):
        world.backend().terminate(world.receipt)

    assert world.state is State.DELETED
    assert world.facts.already_gone


def test_one_listing_is_no_proof(world):
    world.go()
    deletion = world.cloud.trace.calls[[name for _, name, _ in world.cloud.trace.calls].index("delete") :]

    assert [name for _, name, _ in deletion].count("list") >= 2
    assert [name for _, name, _ in deletion].count("get") >= 2
    first, *_, last = [moment for moment, name, _ in deletion if name == "get"]
    assert last - first >= 5


def test_a_kept_machine_is_stopped_after_its_results_are_home(tmp_path):
    world = World(tmp_path, keep=True)

    world.go()

    assert world.state is State.STOPPED
    assert world.facts.verified
    assert (world.run.path / "checkpoint.pt").exists()


def test_the_phases_add_up_to_the_bill(world):
    lines = [
        {"event": "started", "stage": "install", "unix": 0}, {"event": "ended", "stage": "install", "seconds": 100},
        {"event": "ended", "stage": "prepare", "seconds": 50}, {"event": "ended", "stage": "train", "seconds": 300},
        {"event": "started", "stage": "own", "unix": 940},
    ]  # fmt: skip
    facts = Facts(
        dollars_per_hour=3.6, created=10.0, ready=70.0, billing_since=10.0, job_finished=960.0, spent_before=1
    )

    seconds = cost.phases(facts, lines, now=1010.0)
    record = cost.record(facts, lines, targets=2_000_000, now=1010.0)

    expected = {"boot": 60, "install": 100, "prepare": 50, "train": 300, "own": 70, "collect": 50, "idle": 370}
    assert seconds == expected
    assert record["dollars"] == pytest.approx(1 + 1.0)
    assert sum(record["phases"].values()) == pytest.approx(1.0)
    assert record["dollars_per_million_tokens"] == {"train": 0.15, "all": 1.0}


def test_a_rental_that_never_began_costs_nothing():
    record = cost.record(Facts(), [], targets=None, now=1e9)

    assert record["dollars"] == 0
    assert record["dollars_per_million_tokens"] == {}


def test_no_credit_stops_all_candidates(world):
    from lab.rental.provider import NoCredit

    world.cloud.trace.arm("create", before=NoCredit("insufficient balance"))

    world.go()

    assert "insufficient balance" in world.error.what
    assert world.cloud.trace.count("create") == 1


def test_no_capacity_says_what_was_asked_for_and_what_would_help(world):
    from lab.rental.provider import NoCapacity

    world.cloud.trace.arm("create", times=99, before=NoCapacity("no instances available"))

    world.go()

    assert isinstance(world.error, LabError)
    assert "no instances available" in world.error.what
    assert "NVIDIA H100" in world.error.do
    assert "--set environment.gpu" in world.error.do


def test_the_id_is_on_disk_before_anybody_waits(world):
    world.cloud.never_ready = True
    seen = []
    world.cloud.trace.arm("agent.hello", act=lambda: seen.append(world.facts.machine_id))
    world.cloud.trace.arm("get", nth=3, act=lambda: seen.append(json.loads(world.run.receipt.read_text())["handle"]))

    world.go()

    assert seen == ["pod1", "pod1"]


@pytest.mark.fault(71, "left at once, named; any later command ends it")
def test_a_second_ctrl_c_leaves_at_once_with_the_id_and_the_one_command(world):
    import signal

    def twice():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    world.cloud.trace.arm("agent.put_chunk", act=twice)
    with pytest.raises(SystemExit) as left:
        world.submit()

    assert left.value.code == 130
    assert world.said[-1] == f"left pod1. End it with: lab rentals terminate {world.run.id}"
    world.any_command()
    assert world.state is State.DELETED
    assert signal.getsignal(signal.SIGINT) is before


def test_a_killed_controller_leaves_a_journal_from_which_the_next_one_ends_the_machine(world):
    world.cloud.trace.kill_after = 3
    with pytest.raises(Killed):
        world.submit()
    world.cloud.trace.kill_after = None

    world.any_command()

    assert world.state is State.DELETED
