"""The live check against the simulated service, with a real Pod: it measures, saves answers and leaves nothing."""

from __future__ import annotations

import json
from functools import partial

import pytest
from pydantic import SecretStr
from simulator import Scenario, Simulator
from typer.testing import CliRunner

from lab.cli import app
from lab.conformance import ScaledClock
from lab.errors import StillBilling
from lab_runpod.doctor import Doctor
from lab_runpod.options import RunPodOptions
from lab_runpod.provider import RunPodProvider
from lab_runpod.settings import RunPodSettings

FACTOR = 20
SMALL = (1000, 300_000)


@pytest.fixture
def factor(request):
    """Faster where no real Pod has to keep up."""
    return getattr(request, "param", FACTOR)


@pytest.fixture
def cloud(factor):
    with Simulator(factor=factor) as simulator:
        yield simulator
    assert simulator.trace.violations == []


@pytest.fixture
def doctor(cloud, factor, tmp_path, monkeypatch):
    monkeypatch.setattr("lab_runpod.client.QUIET_SECONDS", 0.1)
    settings = RunPodSettings(
        api_url=cloud.api_url,
        proxy_url=cloud.proxy_url,
        graphql_url=f"{cloud.url}/graphql",
        v1_url=f"{cloud.url}/v1",
        api_key=SecretStr(cloud.account_key),
    )
    options = RunPodOptions()
    connected = partial(RunPodProvider, options, settings)
    return Doctor(connected, settings, options, tmp_path / "doctor", lambda line: None, ScaledClock(factor), SMALL)


def checks(doctor):
    return {result.name: result for result in doctor.run()}


def test_a_whole_visit_measures_everything_and_deletes_its_pod(cloud, doctor, tmp_path):
    cloud.proxy.max_body = 200_000
    cloud.proxy.drops_range = True
    cloud.cloud.usual = Scenario(list_lag=20, stale_route=10)

    found = checks(doctor)

    assert cloud.alive == []
    assert cloud.cloud.spent() < 0.10
    failed = {name: result.detail for name, result in found.items() if not result.passed}
    assert failed.keys() == {"Range on /blob.bin", f"an upload of {SMALL[1] / (1 << 20):.0f} MiB"}, failed
    assert "404 from" in found["the proxy reaches the Pod"].detail
    assert found["self-stop by action"].passed
    assert json.loads((tmp_path / "doctor" / "doctor.json").read_text())["checks"]


def test_the_command_measures_the_service_its_settings_name_and_shows_every_check(cloud, factor, project, monkeypatch):
    addresses = {
        "API": cloud.api_url,
        "PROXY": cloud.proxy_url,
        "GRAPHQL": f"{cloud.url}/graphql",
        "V1": f"{cloud.url}/v1",
    }
    for name, address in addresses.items():
        monkeypatch.setenv(f"LAB_RUNPOD_{name}_URL", address)
    monkeypatch.setenv("RUNPOD_API_KEY", cloud.account_key)
    monkeypatch.setattr("lab_runpod.client.QUIET_SECONDS", 0.1)
    monkeypatch.setattr("lab_runpod.doctor.SystemClock", lambda: ScaledClock(factor))
    monkeypatch.setattr("lab_runpod.doctor.UPLOADS", SMALL)

    result = CliRunner().invoke(app, ["doctor", "--backend", "runpod", "--yes", "--json"])

    told = json.loads(result.stdout)
    assert (result.exit_code, told["passed"]) == (0, True)
    assert {"the key may list Pods", "self-stop by action", "a deleted Pod is gone"} <= {
        one["name"] for one in told["checks"]
    }
    assert cloud.alive == []
    assert len(cloud.cloud.pods) == 1
    [folder] = (project / ".lab" / "doctor").iterdir()
    assert json.loads((folder / "doctor.json").read_text())["checks"] == told["checks"]


def test_the_saved_answers_are_the_services_own_and_hold_no_secret_and_no_strangers_pod(cloud, doctor, tmp_path):
    stranger = {
        "name": "somebody else's",
        "image": "x",
        "gpu": {"id": "NVIDIA RTX A4000", "count": 1},
        "env": {"SECRET": "strangers-secret"},
    }
    cloud.do(lambda: cloud.cloud.create("account", stranger))

    checks(doctor)

    texts = [path.read_text() for path in (tmp_path / "doctor" / "answers").iterdir()]
    assert len(texts) > 10
    for secret in (cloud.account_key, "strangers-secret", doctor.visit.token):
        assert not any(secret in text for text in texts)
    assert [pod.request["name"] for pod in cloud.alive] == ["somebody else's"]


@pytest.mark.parametrize("factor", [100], indirect=True)
def test_a_pod_key_that_may_do_nothing_is_reported_with_each_ways_answer(cloud, doctor):
    cloud.cloud.pod_keys = "forbidden"

    found = checks(doctor)

    assert "403" in found["self-stop by action"].detail
    assert "403" in found["self-stop by runpodctl"].detail
    assert not found["self-stop by graphql"].passed
    assert cloud.alive == []


@pytest.mark.parametrize("factor", [500], indirect=True)
def test_a_pod_that_never_answers_is_given_up_and_deleted(cloud, doctor):
    cloud.cloud.usual = Scenario(silent=True)

    found = checks(doctor)

    assert not found["measured everything"].passed
    assert cloud.alive == []
    assert cloud.cloud.spent() < 0.10


def test_an_answer_that_a_stopping_pod_takes_with_it_or_the_network_loses_costs_no_other_measurement(cloud, doctor):
    cloud.arm("cut", where="proxy", method="POST", path="^/stop$", times=None)
    cloud.arm("cut", where="proxy", method="GET", path="^/blob$")

    found = checks(doctor)

    failed = {name: result.detail for name, result in found.items() if not result.passed}
    assert failed.keys() == {"Range on /blob"}, failed
    assert found["self-stop by action"].passed
    assert "the price while stopped" in found


@pytest.mark.parametrize("factor", [100], indirect=True)
def test_a_foreign_page_in_place_of_a_ways_answer_is_told_and_the_next_way_is_tried(cloud, doctor):
    cloud.cloud.pod_keys = "forbidden"
    cloud.arm("answer", where="proxy", method="GET", path="^/tried$", status=200, body="<html>", times=None)

    found = checks(doctor)

    ways = [result for name, result in found.items() if name.startswith("self-stop")]
    assert len(ways) == 3
    assert all("JSONDecodeError" in result.detail for result in ways)
    assert "measured everything" not in found
    assert cloud.alive == []


def test_nothing_is_created_when_the_cheapest_machine_is_too_dear(cloud, doctor):
    cloud.cloud.hosts[:] = [host for host in cloud.cloud.hosts if "H100" in host.gpu]

    found = checks(doctor)

    assert not found["a machine was placed"].passed
    assert cloud.pods == []


def test_a_creation_whose_answer_got_lost_is_found_by_name_and_deleted(cloud, doctor):
    cloud.arm("answer", method="POST", path="/v2/pods$", status=500, applied=True)
    cloud.cloud.usual = Scenario(list_lag=20)

    checks(doctor)

    assert len(cloud.pods) == 1
    assert cloud.alive == []


@pytest.mark.parametrize("factor", [500], indirect=True)
def test_a_pod_that_cannot_be_deleted_is_named_loudly(cloud, doctor):
    cloud.cloud.usual = Scenario(silent=True)
    cloud.arm("answer", method="DELETE", status=500, times=None)

    with pytest.raises(StillBilling, match=r"https://console") as loud:
        doctor.run()

    assert cloud.pods[0].id in str(loud.value)
