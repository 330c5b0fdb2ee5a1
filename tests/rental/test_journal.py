"""The journal: on disk before the act, readable after any accident, one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
import stat

import pytest

from lab.errors import LabError, StillBilling
from lab.rental.facts import State
from lab.rental.journal import Held, Journal
from rental.virtual import VirtualClock
from rental.world import World


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def journal(tmp_path, clock):
    made = Journal(tmp_path / "rentals" / "run", clock)
    made.create()
    return made


def write(journal, *events):
    for seq, event in enumerate(events, len(journal.records()) + 1):
        journal.append(seq, "planned", event, {}, {})


def test_records_come_back_in_order(journal):
    write(journal, "a", "b", "c")

    assert [record["event"] for record in journal.records()] == ["a", "b", "c"]


@pytest.mark.parametrize("torn", [b'{"schema": 1, "se', b"{", b"\0" * 300])
@pytest.mark.fault(67, "the record does not count")
def test_a_torn_last_line_was_never_acted_upon_and_the_next_record_takes_its_place(journal, torn):
    write(journal, "a", "b")
    with journal.path.open("ab") as file:
        file.write(torn)

    assert [record["event"] for record in journal.records()] == ["a", "b"]
    write(journal, "c")
    assert [record["event"] for record in journal.records()] == ["a", "b", "c"]


def test_damage_in_the_middle_is_named_and_nothing_is_guessed(journal):
    write(journal, "a", "b")
    journal.path.write_bytes(journal.path.read_bytes().replace(b'"a"', b'"a', 1))

    with pytest.raises(LabError, match=r"journal\.jsonl: line 1 is damaged"):
        journal.records()


def test_a_newer_journal_is_not_misread(journal):
    write(journal, "a")
    record = json.loads(journal.path.read_text())
    journal.path.write_text(json.dumps({**record, "schema": 2}) + "\n")

    with pytest.raises(LabError, match="another version"):
        journal.records()


def test_journal_and_folder_are_for_their_owner_only(journal):
    before = os.umask(0)
    try:
        write(journal, "a")
    finally:
        os.umask(before)

    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.folder.stat().st_mode) == 0o700


def test_a_record_that_does_not_reach_the_disk_leaves_the_journal_as_it_was(tmp_path, clock):
    calls = []

    def sync(handle):
        calls.append(handle)
        if len(calls) > 4:
            raise OSError(28, "No space left on device")

    journal = Journal(tmp_path / "rentals" / "run", clock, sync)
    journal.create()
    write(journal, "a")
    before = journal.path.read_bytes()

    with pytest.raises(OSError, match="No space"):
        write(journal, "b")

    assert journal.path.read_bytes() == before


def test_each_record_is_synced_before_the_act_that_it_announces(tmp_path):
    world = World(tmp_path)
    synced = []
    unsynced_acts = []
    world.backend()

    def sync(handle):
        journal = world.store / "rentals" / world.run.id / "journal.jsonl"
        if journal.exists() and os.fstat(handle).st_ino == journal.stat().st_ino:
            synced.append(len(journal.read_bytes()))

    def note(operation):
        def instead(effect):
            journal = world.store / "rentals" / world.run.id / "journal.jsonl"
            if not synced or synced[-1] != journal.stat().st_size:
                unsynced_acts.append(operation)
            return effect()

        return instead

    for operation in ("create", "delete", "agent.start"):
        world.cloud.trace.arm(operation, instead=note(operation))
    backend = world.backend(sync=sync)
    world.submit(backend)
    world.follow(backend)

    assert world.state is State.DELETED
    assert world.cloud.trace.count("create") == 1
    assert unsynced_acts == []


def test_the_new_file_and_its_folders_are_synced_too(tmp_path, clock):
    synced = []
    journal = Journal(
        tmp_path / "rentals" / "run", clock, lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}"))
    )
    journal.create()
    write(journal, "a")

    assert {str(tmp_path), str(tmp_path / "rentals"), str(journal.folder), str(journal.path)} <= set(synced)


@pytest.mark.fault(68, "the second one waits, then names the first")
def test_a_second_controller_is_refused_by_the_number_of_the_first(journal, clock):
    with journal.lock(), open(journal.folder / "lock", "rb") as seen:
        assert seen.read().decode().strip() == str(os.getpid())
        with pytest.raises(Held, match=str(os.getpid())), Journal(journal.folder, clock).lock():
            pass

    assert clock.seconds >= 20
    with journal.lock(0):
        pass


@pytest.mark.fault(68, "the run goes on; the other command is refused")
def test_a_listing_beside_a_run_at_work_touches_nothing(tmp_path):
    world = World(tmp_path)
    rows = []

    def list_meanwhile():
        rows.extend(world.backend().owned())

    world.cloud.trace.arm("agent.put_chunk", act=list_meanwhile)
    world.go()

    assert [row.state for row in rows] == ["worked on by another process"]
    assert world.state is State.DELETED
    assert world.cloud.trace.count("create") == 1


@pytest.mark.fault(67, "no machine is asked for")
def test_without_a_journal_nothing_is_asked_of_the_cloud(tmp_path):
    world = World(tmp_path)

    def full(handle):
        raise OSError(28, "No space left on device")

    error = world.attempt(lambda: world.submit(world.backend(sync=full)))

    assert "Nothing was asked of the cloud" in str(error)
    assert world.cloud.trace.count("create") == 0


@pytest.mark.fault(67, "the machine is deleted at once")
def test_a_machine_that_cannot_be_written_down_is_ended_at_once(tmp_path):
    world = World(tmp_path)
    full = []

    def sync(handle):
        if full:
            raise OSError(28, "No space left on device")

    world.cloud.trace.arm("create", answer=lambda machine: full.append(1) or machine)
    error = world.attempt(lambda: world.submit(world.backend(sync=sync)))

    assert isinstance(error, StillBilling)
    assert "pod1" in error.what
    assert world.cloud.living() == []
    world.any_command()
    assert world.state is State.NO_MACHINE


def test_the_lock_is_gone_with_its_process(journal):
    handle = os.open(journal.folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.close(handle)

    with journal.lock(0):
        pass
