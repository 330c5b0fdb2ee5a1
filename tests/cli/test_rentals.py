"""`lab rentals` and `lab doctor`, against a cloud in this process."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rental import current, invariants
from rental.fake_cloud import JobScript
from rental.world import World
from typer.testing import CliRunner

from lab.cli import app
from lab.contracts import Unquoted
from lab.errors import LabError, StillBilling, UsageError
from lab.rental.facts import State
from lab.rental.provider import Candidate, CreateRequest, NotAuthorized, Unreachable


@pytest.fixture
def world(project, install_plugin, monkeypatch):
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "runpod")
    install_plugin("fake", current.PLUGIN)
    current.world = World(project)
    current.world.cloud.script = JobScript(seconds=100.0)
    yield current.world
    current.world = None


def lab(*words):
    return CliRunner().invoke(app, ["rentals", *words])


def orphan(world, owner, name="lab-0123abcd-1-1796112000-abcdef"):
    """A machine of lab that no journal here knows."""
    stamps = {"LAB_OWNER": owner, "LAB_RUN_ID": "gone-20261201-0915-7f3a", "LAB_NONCE": "x"}
    limits = {"LAB_LEASE_SECONDS": "900000", "LAB_LIMIT_SECONDS": "900000", "LAB_TOKEN_SHA256": "0"}
    request = CreateRequest(name, Candidate("NVIDIA H100", 2.0), "i", (), {**stamps, **limits}, 1, 1, "/w", 20)
    return world.cloud.make(request)


def owner(world):
    from lab.rental.naming import owner_of

    return owner_of(world.store)


def test_without_rentals_there_is_nothing_to_see(world):
    result = lab()

    assert (result.exit_code, result.stdout) == (0, "No rented machine.\n")


def test_a_running_machine_is_listed_with_what_it_costs(world):
    world.submit()
    world.clock.sleep(1)

    result = lab("list", "--json")

    (row,) = json.loads(result.stdout)["rentals"]
    assert (row["handle"], row["run_id"], row["state"], row["dollars_per_hour"]) == (
        "pod1",
        world.run.id,
        "running",
        2.0,
    )
    assert row["detail"]["dollars"] == pytest.approx(2.0 * 61 / 3600, abs=1e-3)
    assert "pod1" in lab().stdout


def test_an_orphan_is_listed_first_and_the_command_fails_loudly(world):
    world.submit()
    orphan(world, owner(world))

    result = lab()

    assert isinstance(result.exception, StillBilling)
    assert result.exception.exit_code == 5
    assert "pod2: orphan" in result.exception.what
    assert [line.split()[0] for line in result.stdout.splitlines()[1:]] == ["pod2", "pod1"]


def test_a_rental_without_its_run_directory_is_an_orphan(world):
    import shutil

    world.submit()
    shutil.rmtree(world.run.path)

    assert isinstance(lab().exception, StillBilling)
    assert lab("reap", "--yes").exit_code == 0
    assert world.cloud.living() == []


def test_a_listing_that_is_not_complete_is_no_comfort(world):
    world.cloud.trace.arm("list", times=99, before=Unreachable("page 2"))

    result = lab()

    assert isinstance(result.exception, StillBilling)
    assert "not complete" in result.exception.what
    assert result.stdout == "No rented machine is known, but the listing is not complete.\n"


def test_machines_of_other_projects_are_shown_and_left_alone(world):
    orphan(world, "another-project")

    assert lab().exit_code == 0
    assert lab("reap", "--yes").stdout == "Nothing to reap.\n"
    assert len(world.cloud.living()) == 1
    assert lab("reap", "--yes", "--any-project").stdout == "pod1: deleted\n"
    assert world.cloud.living() == []


def test_machines_that_are_not_labs_are_never_listed_and_never_touched(world):
    ours = orphan(world, owner(world))
    strange = orphan(world, owner(world), name="somebodys-pod")
    world.cloud.strangers.append(replace(world.cloud.shown(strange), id="foreign", environment={}))

    lab("reap", "--yes", "--any-project")

    assert not ours.exists
    assert strange.exists
    invariants.no_stranger_is_touched(world)


def test_deleting_orphans_needs_a_yes(world):
    orphan(world, owner(world))

    assert isinstance(lab("reap").exception, UsageError)
    assert len(world.cloud.living()) == 1


@pytest.mark.parametrize("name", ["id", "prefix", "machine", "journal", "run folder", "latest"])
def test_a_rental_is_named_in_many_ways(world, name):
    world.submit()
    names = {
        "id": world.run.id, "prefix": world.run.id[:9], "machine": "pod1", "latest": "latest",
        "journal": str(world.store / "rentals" / world.run.id / "journal.jsonl"), "run folder": str(world.run.path),
    }  # fmt: skip

    result = lab("stop", names[name])

    assert result.exit_code == 0, result.exception
    assert world.state is State.STOPPED
    assert "costs $0.14 a day" in result.stdout


def test_a_name_that_nothing_has_is_refused_with_the_nearest(world):
    world.submit()

    result = lab("stop", world.run.id[:-1] + "b")

    assert isinstance(result.exception, UsageError)
    assert world.run.id in result.exception.do


def test_an_empty_name_means_no_rental_not_even_the_only_one(world):
    world.submit()

    result = lab("terminate", "", "--yes")

    assert isinstance(result.exception, UsageError)
    assert len(world.cloud.living()) == 1


def test_giving_up_results_needs_a_yes_and_is_safe_to_repeat(world):
    world.submit()

    refused = lab("terminate", world.run.id)
    assert isinstance(refused.exception, UsageError)
    assert "collect" in refused.exception.do
    assert world.cloud.trace.count("delete") == 0
    for _ in range(2):
        assert lab("terminate", world.run.id, "--yes").exit_code == 0
    assert world.state is State.DELETED
    assert world.cloud.trace.count("delete") == 1


def test_a_stopped_machine_is_collected_verified_and_deleted(world):
    world.submit()
    lab("stop", world.run.id)

    result = lab("collect", world.run.id)

    assert world.state is State.DELETED
    assert "stopped" in result.stdout
    assert json.loads(world.run.outcome.read_text())["status"] == "stopped"


def test_monitor_follows_to_the_end_and_writes_down_how_it_ended(world):
    world.submit()

    result = lab("monitor", "pod1")

    assert result.exit_code == 0, result.exception
    assert world.state is State.DELETED
    assert (world.run.path / "checkpoint.pt").exists()
    assert json.loads(world.run.outcome.read_text())["status"] == "completed"


def test_a_stopped_machine_is_started_and_goes_on(world):
    world.submit()
    lab("stop", world.run.id)

    assert lab("start", world.run.id).exit_code == 0
    assert world.state is State.RUNNING
    assert isinstance(lab("start", world.run.id).exception, UsageError)


def test_the_doctor_checks_this_machine_for_nothing(world):
    result = CliRunner().invoke(app, ["doctor", "--json"])

    checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
    assert checks["Python"]["passed"]
    assert {"torch", "runs folder", "store folder", "RUNPOD_API_KEY", "plugins"} <= set(checks)


def test_the_doctor_says_whether_a_key_is_set_and_never_what_it_is(world, monkeypatch):
    monkeypatch.setenv("RUNPOD_API_KEY", "rpa_secret_0123456789")

    result = CliRunner().invoke(app, ["doctor"])

    assert "rpa_secret" not in result.stdout
    assert any("RUNPOD_API_KEY" in line and " set" in line for line in result.stdout.splitlines())


def test_a_live_check_without_a_key_says_so_before_it_asks_for_money(project, monkeypatch):
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)

    result = CliRunner().invoke(app, ["doctor", "--backend", "runpod"])

    assert isinstance(result.exception, LabError)
    assert "RUNPOD_API_KEY is not set" in result.exception.what
    assert not (project / ".lab" / "doctor").exists()


def test_without_a_key_a_dry_run_still_shows_what_would_travel_and_a_run_does_not_start(project, monkeypatch):
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    run = ["run", "smoke", "--backend", "runpod"]

    dry = CliRunner().invoke(app, [*run, "--dry-run", "--json"])
    real = CliRunner().invoke(app, [*run, "--yes"])

    planned = json.loads(dry.stdout)
    assert dry.exit_code == 0
    assert "RUNPOD_API_KEY is not set" in planned["quote"]["unknown"]
    assert planned["bundle"]["files"]
    assert "RUNPOD_API_KEY is not set" in CliRunner().invoke(app, [*run, "--dry-run"]).stdout
    assert isinstance(real.exception, Unquoted)
    assert not list((project / ".runs").glob("*"))


def test_an_experiment_without_an_image_is_named_with_the_key_to_set(project):
    (project / "experiments" / "bare.toml").write_text('[[stages]]\nname = "only"\nrun = ["true"]\n')

    refused = CliRunner().invoke(app, ["run", "bare", "--backend", "runpod", "--dry-run"]).exception

    assert isinstance(refused, UsageError)
    assert refused.what == f"{project / 'experiments' / 'bare.toml'}: environment.image is missing: " + (
        "a rented machine starts from an image."
    )


def test_a_backend_without_a_live_check_says_so(world):
    assert isinstance(CliRunner().invoke(app, ["doctor", "--backend", "fake"]).exception, UsageError)
    assert isinstance(CliRunner().invoke(app, ["doctor", "--backend", "local"]).exception, UsageError)


def test_what_a_run_cost_is_shown_with_its_phases_and_per_million_tokens(world):
    summary = b'{"schema": 1, "overall": {"targets": 2000000}}'
    world.cloud.script = JobScript(seconds=100.0, results={"summary.json": summary})
    world.go()

    shown = CliRunner().invoke(app, ["runs", "show", world.run.id]).stdout

    assert "boot $0.03" in shown
    assert "per million tokens" in shown
    assert "pod1" in shown


def without_key():
    raise NotAuthorized("FAKE_KEY is not set")


def test_a_rental_that_is_over_needs_no_key_to_be_listed(world, monkeypatch):
    world.go()
    monkeypatch.setattr(world.cloud, "account", without_key)

    result = lab()

    assert (result.exit_code, result.stdout) == (0, "No rented machine.\n")


def test_a_machine_whose_key_is_gone_is_not_said_to_be_gone(world, monkeypatch):
    world.submit()
    monkeypatch.setattr(world.cloud, "account", without_key)

    result = lab()

    assert isinstance(result.exception, StillBilling)
    assert "FAKE_KEY is not set, so nothing was done" in result.exception.what


def test_a_cloud_that_nobody_can_ask_is_not_said_to_hold_nothing(project, monkeypatch):
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)

    result = lab()

    assert result.exit_code == 0
    assert "no cloud was asked" in result.stdout
