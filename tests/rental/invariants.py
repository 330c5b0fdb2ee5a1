"""What must hold on every trace, whatever went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.rental.facts import State

if TYPE_CHECKING:
    from rental.world import World

CONTROLS = ("stop", "start", "delete", "emergency_stop", "emergency_delete")
POLL_DOLLARS = 0.01
"""What one look and the asking to stop may cost beyond the cap."""


def check(world: World, *, at_rest: bool = True) -> None:
    """Every property that a trace can be asked for."""
    one_machine_at_most(world, at_rest=at_rest)
    if at_rest:
        each_machine_is_accounted_for(world)
    nothing_is_deleted_before_it_is_home(world)
    no_stranger_is_touched(world)
    no_secret_is_written(world)


def one_machine_at_most(world: World, *, at_rest: bool = True) -> None:
    living = world.cloud.living()
    if at_rest and world.state is not State.ATTENTION:
        assert len(living) <= 1, [machine.id for machine in living]


def each_machine_is_accounted_for(world: World) -> None:
    facts = world.facts
    for machine in world.cloud.machines.values():
        if not machine.exists:
            continue
        if machine.id == facts.machine_id and machine.status == "stopped":
            assert facts.state in (State.STOPPED, State.ATTENTION), (machine.id, facts.state)
        else:
            named = {facts.machine_id, *facts.extras}
            assert facts.state is State.ATTENTION, (machine.id, machine.status, facts.state)
            assert machine.id in named or facts.pending is State.UNCERTAIN, (machine.id, named)
    for machine_id in facts.deleted:
        assert not world.cloud.machines[machine_id].exists, f"{machine_id} is called deleted and lives"


def nothing_is_deleted_before_it_is_home(world: World) -> None:
    """A machine on which a job ran is deleted only once its results are here, or because a person said so."""
    records = world.backend().journal(world.run.id).records()
    by_user = any(record["data"].get("by_user") for record in records)
    verified = {record["seq"] for record in records if record["data"].get("verified")}
    for machine_id in world.cloud.trace.subjects("delete", "emergency_delete"):
        machine = world.cloud.machines.get(machine_id)
        if machine is not None and machine.disk.get("starts") and not by_user:
            assert verified, f"{machine_id} was deleted with its results"
            for path, data in world.cloud.script.results.items():
                home = world.run.path / path
                stays = (*machine.disk.get("removed", ()), *world.cloud.script.refused)
                if path not in stays and machine.job_end() is not None and data:
                    assert home.exists(), f"{machine_id} was deleted and {path} is not home"


def no_stranger_is_touched(world: World) -> None:
    strangers = {machine.id for machine in world.cloud.strangers}
    touched = set(world.cloud.trace.subjects(*CONTROLS))
    assert not strangers & touched


def no_secret_is_written(world: World) -> None:
    secrets = [world.cloud.key.encode()]
    token = world.store / "rentals" / world.run.id / "token"
    if token.exists():
        secrets.append(token.read_bytes())
    for folder in (world.store, world.run.path):
        for path in folder.rglob("*"):
            if path.is_file() and path != token:
                content = path.read_bytes()
                assert not any(secret in content for secret in secrets), path
    for machine in world.cloud.machines.values():
        asked = repr(machine.request).encode()
        assert not any(secret in asked for secret in secrets)


def the_bill_is_capped(world: World, reserve: float = POLL_DOLLARS) -> None:
    assert world.cloud.bill() <= world.facts.max_dollars + reserve, world.cloud.bill()
