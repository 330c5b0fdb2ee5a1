"""What a dry run on a rented machine says before any money is spent, with a price list and without a key."""

from __future__ import annotations

import json

import pytest
from rental import current
from rental.fake_cloud import JobScript
from rental.world import World


@pytest.fixture
def rented(project, lab, install_plugin, monkeypatch):
    """The facts of a dry run on a cloud in this process, by name, and all that was said."""
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "runpod")
    install_plugin("fake", current.PLUGIN)
    current.world = World(project)
    current.world.cloud.script = JobScript(seconds=100.0)
    yield lambda *options: facts(lab("run", "corrected", "--backend", "fake", "--dry-run", *options))
    current.world = None


@pytest.fixture
def unasked(lab, monkeypatch):
    """The same on RunPod without a key, which costs no request."""
    monkeypatch.delenv("RUNPOD_API_KEY", raising=False)
    return lambda *options: facts(lab("run", "corrected", "--backend", "runpod", "--dry-run", *options))


def facts(outcome):
    assert (outcome.code, outcome.err) == (0, "")
    rows = [line.split("   ", 1) for line in outcome.out.splitlines() if line[:1].isalpha() and "   " in line]
    return {name.strip(): value.strip() for name, value in rows}


def test_the_machine_its_disk_and_the_time_are_named_without_a_key(unasked):
    said = unasked()

    assert said["machine"] == "one NVIDIA H100 80GB HBM3; image pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel"
    assert said["disk"] == "30 GB, and 30 GB that outlive a stop"
    assert said["time"] == "at most 1.5 h for the job"


def test_what_the_machine_is_to_install_is_named(unasked, lab):
    assert unasked()["installs"].startswith("what the image lacks of torch==2.14.1, liger-kernel==0.8.4, ")

    plan = json.loads(lab("run", "corrected", "--backend", "runpod", "--dry-run", "--json").out)

    assert plan["installs"]["packages"][:2] == ["torch==2.14.1", "liger-kernel==0.8.4"]
    assert "pydantic>=2.9" in plan["installs"]["requirements"]
    assert plan["installs"]["torch_index"] == "cu126"


@pytest.mark.parametrize(
    ("options", "price"),
    [
        ([], "not known here; --max-price and --max-cost bound it"),
        (["--max-cost", "4"], "not known here; at most $4.00 in all"),
        # booting (20 min), the job (90 min) and collecting (30 min) at three dollars an hour
        (["--max-price", "3"], "not known here; at most $7.00 in all"),
        (["--max-price", "3", "--set", "limits.dollars=2"], "not known here; at most $2.00 in all"),
    ],
)
def test_without_a_price_list_the_price_is_said_to_be_unknown_and_what_bounds_it(unasked, options, price):
    assert unasked(*options)["price"] == price


def test_the_offers_are_listed_with_their_price_and_the_most_that_the_run_can_cost(rented):
    said = rented()

    assert said["price"].startswith("2 offers at $2.00 to $2.10 an hour; at most $5.39 in all")
    assert "GPU" in said  # the head of the list of offers


def test_a_run_on_this_machine_is_offered_nothing(lab):
    assert not {"installs", "disk", "price"} & set(facts(lab("run", "smoke", "--dry-run")))
