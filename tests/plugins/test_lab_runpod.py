"""RunPod's API through the real client, against the simulated service: each answer becomes the right value or error."""

from __future__ import annotations

import json

import httpx
import pytest
from pydantic import SecretStr, ValidationError
from simulator import Scenario, Simulator

from lab.errors import UsageError
from lab.jobs import Needs
from lab.rental import provider as rental
from lab.rental.provider import Candidate, CreateRequest
from lab_runpod import boot
from lab_runpod.candidates import minimum_cuda
from lab_runpod.client import Client
from lab_runpod.options import RunPodOptions
from lab_runpod.provider import RunPodProvider
from lab_runpod.settings import RunPodSettings, read_settings

IMAGE = "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel@sha256:" + "a7" * 32
A4000 = "NVIDIA RTX A4000"
CREATE = {"method": "POST", "path": "/v2/pods$"}


@pytest.fixture
def cloud():
    with Simulator(factor=100) as simulator:
        simulator.cloud.usual = Scenario(silent=True)
        yield simulator
    assert simulator.trace.violations == []


def settings_for(cloud, **changes):
    return RunPodSettings(
        api_url=cloud.api_url,
        proxy_url=cloud.proxy_url,
        graphql_url=f"{cloud.url}/graphql",
        v1_url=f"{cloud.url}/v1",
        api_key=SecretStr(cloud.account_key),
        **{"connect_seconds": 2, "read_seconds": 2, "create_seconds": 2, **changes},
    )


@pytest.fixture
def runpod(cloud):
    provider = RunPodProvider(settings=settings_for(cloud))
    yield provider
    provider.client.close()


def request_for(name="lab-0a1b2c3d-1-1796112000-abcdef", **changes):
    fields = {
        "name": name,
        "candidate": Candidate(A4000, 0.25, 1, "SECURE", None, "HIGH", "12.8"),
        "image": IMAGE,
        "argv": ("python3", "-c", "pass"),
        "environment": {"LAB_NONCE": "n"},
        "port": 8765,
        "disk_gb": 20,
        "mount_path": "/workspace",
        "volume_gb": 10,
    }
    return CreateRequest(**{**fields, **changes})


# creating


def test_a_created_pod_is_what_was_asked_for_and_keeps_a_disk(cloud, runpod):
    machine = runpod.create(request_for())

    assert (machine.gpu, machine.gpus, machine.image, machine.status) == (A4000, 1, IMAGE, "starting")
    assert (machine.mount_path, machine.volume_gb, machine.environment) == ("/workspace", 10, {"LAB_NONCE": "n"})
    assert machine.dollars_per_hour == pytest.approx(0.25, abs=0.01)


def test_a_creation_says_the_gpu_count_and_the_oldest_usable_driver(cloud, runpod):
    runpod.create(request_for())

    sent = json.loads(cloud.trace.requests("POST", "/v2/pods")[0].body)
    assert sent["gpu"] == {"id": A4000, "count": 1, "minCudaVersion": "12.8"}
    assert cloud.pods[0].host.cuda == "12.8"


def test_the_main_process_replaces_entry_point_and_command_and_is_never_split_by_a_shell(cloud, runpod):
    words = ("python3", "-c", 'print("a\\"b")\n# $(touch PWNED) \u00e9')

    runpod.create(request_for(argv=words))

    sent = json.loads(json.loads(cloud.trace.requests("POST", "/v2/pods")[0].body)["args"])
    assert (*sent["entrypoint"], *sent["cmd"]) == words


def test_the_key_is_in_the_header_alone_and_never_in_a_body_or_an_address(cloud, runpod):
    runpod.create(request_for())
    runpod.list_all()

    for exchange in cloud.trace.exchanges:
        assert exchange.headers["Authorization"] == f"Bearer {cloud.account_key}"
        assert cloud.account_key not in exchange.body + exchange.path + exchange.query


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, rental.NoCapacity),
        (401, rental.NotAuthorized),
        (402, rental.NoCredit),
        (403, rental.Forbidden),
        (404, rental.RequestRejected),
        (410, rental.Gone),
        (413, rental.RequestRejected),
        (422, rental.RequestRejected),
        (429, rental.RateLimited),
        (500, rental.UncertainOutcome),
        (502, rental.UncertainOutcome),
    ],
)
def test_each_refusal_of_a_creation_has_its_own_meaning_and_is_sent_once(cloud, runpod, status, error):
    fault = cloud.arm("answer", **CREATE, status=status)

    with pytest.raises(error):
        runpod.create(request_for())

    assert (fault.fired, len(cloud.trace.requests("POST", "/v2/pods")), cloud.pods) == (1, 1, [])


def test_a_shelf_without_gpus_is_no_capacity_in_the_services_own_words(cloud, runpod):
    for host in cloud.cloud.hosts:
        host.free = 0

    with pytest.raises(rental.NoCapacity, match="no longer any instances available"):
        runpod.create(request_for())


def test_an_empty_account_cannot_create(cloud, runpod):
    cloud.cloud.balance = 0.0

    with pytest.raises(rental.NoCredit):
        runpod.create(request_for())


def test_a_gpu_without_a_count_would_find_no_machine(cloud, runpod):
    body = {"name": "x", "image": IMAGE, "gpu": {"id": A4000}}

    with pytest.raises(rental.NoCapacity):
        runpod.client.post("pods", body, rental.NoCapacity)


def test_an_unknown_field_is_named_by_the_services_refusal(cloud, runpod):
    with pytest.raises(rental.RequestRejected, match="supportPublicIp"):
        runpod.client.post("pods", {"name": "x", "image": IMAGE, "supportPublicIp": True}, rental.NoCapacity)


@pytest.mark.parametrize(
    "fault",
    [
        {"effect": "answer", "status": 500, "applied": True},
        {"effect": "reset", "applied": True},
        {"effect": "cut", "offset": 40},
        {"effect": "truncate", "offset": 40},
        {"effect": "answer", "status": 201, "body": "<html>ok</html>", "applied": True},
        {"effect": "patch", "change": {"id": "ABSENT"}},
        {"effect": "patch", "change": {"id": None}},
        {"effect": "patch", "change": {"id": "../../other"}},
    ],
    ids=["500", "reset", "cut short", "torn", "a page", "no id", "id null", "id is a path"],
)
def test_a_creation_whose_answer_got_lost_is_uncertain_and_the_pod_is_found_by_its_name(cloud, runpod, fault):
    armed = cloud.arm(**fault, **CREATE)

    with pytest.raises(rental.UncertainOutcome):
        runpod.create(request_for())

    assert armed.fired == 1
    assert [machine.name for machine in runpod.list_all()] == [request_for().name]


def test_a_creation_that_was_reset_before_it_arrived_is_uncertain_and_made_nothing(cloud, runpod):
    cloud.arm("reset", **CREATE)

    with pytest.raises(rental.UncertainOutcome):
        runpod.create(request_for())

    assert runpod.list_all() == ()


def test_a_creation_that_times_out_may_still_be_carried_out(cloud):
    runpod = RunPodProvider(settings=settings_for(cloud, create_seconds=0.2))
    cloud.arm("delay", **CREATE, seconds=40)

    with pytest.raises(rental.UncertainOutcome):
        runpod.create(request_for())
    while not cloud.pods:
        pass

    assert [machine.name for machine in runpod.list_all()] == [request_for().name]
    runpod.client.close()


def test_no_connection_at_all_means_that_nothing_was_sent():
    settings = RunPodSettings(api_url="http://127.0.0.1:9/v2", api_key=SecretStr("k"), connect_seconds=1)
    runpod = RunPodProvider(settings=settings)

    with pytest.raises(rental.Unreachable):
        runpod.create(request_for())
    runpod.client.close()


@pytest.mark.parametrize("cost", [None, "ABSENT", "2.99", -1, True])
def test_a_price_that_is_none_is_not_taken_for_a_free_machine(cloud, runpod, cost):
    cloud.arm("patch", **CREATE, change={"cost": cost})

    machine = runpod.create(request_for())

    assert machine.id
    assert machine.dollars_per_hour is None


def test_the_answers_price_counts_and_not_the_listed_one(cloud, runpod):
    cloud.cloud.queue.append(Scenario(silent=True, cost=9.0))

    assert runpod.create(request_for()).dollars_per_hour == pytest.approx(9.0, abs=0.01)


def test_a_forgotten_mount_shows_as_none(cloud, runpod):
    cloud.cloud.queue.append(Scenario(silent=True, drop_mounts=True))

    machine = runpod.create(request_for())

    assert (machine.mount_path, machine.volume_gb) == (None, None)


def test_what_the_service_would_refuse_for_its_size_is_refused_before_it_is_sent(cloud, runpod):
    with pytest.raises(rental.RequestRejected, match="bytes"):
        runpod.create(request_for(argv=("python3", "-c", "x" * 110_000)))
    with pytest.raises(rental.RequestRejected, match="environment variables"):
        runpod.create(request_for(environment={f"V{n}": "1" for n in range(51)}))

    assert cloud.trace.exchanges == []


def test_variables_arrive_as_the_same_bytes(cloud, runpod):
    value = 'a"b\\c\n$(touch PWNED)\u00e9'

    machine = runpod.create(request_for(environment={"ODD": value}))

    assert runpod.get(machine.id).environment["ODD"] == value


# reading


def test_every_page_of_a_listing_is_read(cloud, runpod):
    cloud.cloud.page_size = 2
    for number in range(5):
        runpod.create(request_for(name=f"lab-0a1b2c3d-{number}-1-abcdef"))

    assert len(runpod.list_all()) == 5
    assert len(cloud.trace.requests("GET", "/v2/pods")) == 3


@pytest.mark.parametrize(
    "fault",
    [
        {"effect": "answer", "status": 503, "first": 2},
        {"effect": "patch", "change": {"pagination": {"hasNextPage": True, "nextCursor": None}}},
        {"effect": "patch", "change": {"pagination": {"hasNextPage": True, "nextCursor": "c0"}}, "times": None},
        {"effect": "patch", "change": {"pods": [{"name": "no id", "status": "RUNNING"}]}},
        {"effect": "patch", "change": {"pods": "ABSENT"}},
        {"effect": "truncate", "offset": 100},
    ],
    ids=["page 2 fails", "no cursor", "cursor loops", "a pod without id", "no pods", "torn"],
)
def test_half_a_listing_is_an_error_and_never_a_shorter_listing(cloud, runpod, fault):
    cloud.cloud.page_size = 1
    for number in range(2):
        runpod.create(request_for(name=f"lab-0a1b2c3d-{number}-1-abcdef"))
    armed = cloud.arm(**fault, method="GET", path="/v2/pods$")

    with pytest.raises(rental.Unreachable):
        runpod.list_all()

    assert armed.fired >= 1


def test_new_fields_and_new_words_do_not_hurt(cloud, runpod):
    machine = runpod.create(request_for())
    cloud.arm("patch", method="GET", change={"status": "HIBERNATING", "brandNew": {"a": 1}, "runtime": {}})

    seen = runpod.get(machine.id)

    assert (seen.status, seen.status_text) == ("unknown", "HIBERNATING")


@pytest.mark.parametrize("change", [{"id": "other"}, {"status": "ABSENT"}, {"name": None}])
def test_a_description_that_cannot_be_trusted_is_no_description(cloud, runpod, change):
    machine = runpod.create(request_for())
    cloud.arm("patch", method="GET", change=change)

    with pytest.raises(rental.Unreachable):
        runpod.get(machine.id)


def test_a_fresh_pod_may_be_unknown_for_a_while(cloud, runpod):
    cloud.cloud.queue.append(Scenario(silent=True, get_lag=60, list_lag=600))
    machine = runpod.create(request_for())

    with pytest.raises(rental.NotFound):
        runpod.get(machine.id)
    cloud.clock.skip(61)

    assert runpod.get(machine.id).id == machine.id
    assert runpod.list_all() == ()


@pytest.mark.parametrize("agent", ["Python-urllib/3.12", ""])
def test_a_block_by_the_edge_is_not_taken_for_a_bad_key(cloud, runpod, agent):
    runpod.client._http.headers["User-Agent"] = agent

    with pytest.raises(rental.Unreachable, match="edge"):
        runpod.list_all()


def test_lab_names_itself_to_the_service(cloud, runpod):
    runpod.list_all()

    assert cloud.trace.exchanges[0].headers["User-Agent"].startswith("lab/")


def test_a_retired_api_is_its_own_error_and_never_a_deleted_pod(cloud, runpod):
    cloud.arm("answer", status=410, body="<html>Gone</html>", times=None)

    with pytest.raises(rental.Gone, match="Update lab"):
        runpod.get("abc")


def test_a_key_that_was_revoked_is_said_to_be_one(cloud, runpod):
    del cloud.cloud.keys[cloud.account_key]

    with pytest.raises(rental.NotAuthorized):
        runpod.list_all()


def test_without_a_key_nothing_is_asked(cloud):
    runpod = RunPodProvider(settings=settings_for(cloud).model_copy(update={"api_key": SecretStr("")}))

    with pytest.raises(rental.NotAuthorized, match=r"RUNPOD_API_KEY is not set: .* https://console\.runpod\.io/"):
        runpod.account()
    with pytest.raises(rental.NotAuthorized, match="RUNPOD_API_KEY"):
        runpod.list_all()

    assert cloud.trace.exchanges == []
    runpod.client.close()


def test_an_account_has_a_fingerprint_that_does_not_show_the_key(cloud, runpod):
    assert cloud.account_key not in runpod.account()
    assert runpod.account() == RunPodProvider(settings=runpod.settings, client=runpod.client).account()


# waiting


def test_an_exhausted_window_says_how_long_to_wait(cloud, runpod):
    cloud.limits.quota = {"minute": 2, "hour": 100, "day": 1000}
    runpod.list_all()
    runpod.list_all()

    with pytest.raises(rental.RateLimited) as refused:
        runpod.list_all()

    assert 0 < refused.value.retry_after <= 60


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "7", "RateLimit": '"minute";r=0;t=12, "hour";r=0;t=1812, "day";r=5;t=9'}, 1812),
        ({"Retry-After": "soon", "RateLimit": "nonsense"}, 10),
        ({}, 10),
    ],
)
def test_the_longest_of_all_waits_counts_and_malformed_headers_are_guessed(cloud, runpod, headers, seconds):
    cloud.arm("answer", status=429, headers=headers)

    with pytest.raises(rental.RateLimited) as refused:
        runpod.list_all()

    assert refused.value.retry_after == seconds


def test_a_caller_without_a_clock_of_its_own_may_let_the_client_ask_again(cloud):
    waits = []
    client = Client(settings_for(cloud), attempts=5, sleep=waits.append)
    runpod = RunPodProvider(settings=client.settings, client=client)
    cloud.arm("answer", status=503, times=2)
    cloud.arm("answer", status=429, headers={"Retry-After": "3"})

    assert runpod.list_all() == ()
    assert len(waits) == 3
    assert waits[2] == 3
    client.close()


def test_a_creation_is_never_repeated_even_by_a_client_that_asks_again(cloud):
    client = Client(settings_for(cloud), attempts=5, sleep=lambda seconds: None)
    runpod = RunPodProvider(settings=client.settings, client=client)
    cloud.arm("answer", **CREATE, status=500, applied=True, times=None)

    with pytest.raises(rental.UncertainOutcome):
        runpod.create(request_for())

    assert len(cloud.pods) == 1
    client.close()


# acting


def test_stop_keeps_the_pod_and_start_brings_it_back(cloud, runpod):
    machine = runpod.create(request_for())

    runpod.stop(machine.id)
    assert runpod.get(machine.id).status == "stopped"
    runpod.start(machine.id)
    assert runpod.get(machine.id).status == "starting"


def test_an_action_that_the_status_forbids_is_a_conflict(cloud, runpod):
    machine = runpod.create(request_for())
    runpod.stop(machine.id)

    with pytest.raises(rental.Conflict):
        runpod.stop(machine.id)


def test_a_host_whose_gpus_are_taken_has_no_capacity_for_a_start(cloud, runpod):
    machine = runpod.create(request_for())
    runpod.stop(machine.id)
    cloud.pods[0].host.free = 0

    with pytest.raises(rental.NoCapacity, match="Failed to resume pod"):
        runpod.start(machine.id)


@pytest.mark.parametrize("act", ["stop", "delete"])
def test_an_act_whose_answer_got_lost_is_uncertain_and_may_have_been_done(cloud, runpod, act):
    machine = runpod.create(request_for())
    cloud.arm("answer", status=500, applied=True)

    with pytest.raises(rental.UncertainOutcome):
        getattr(runpod, act)(machine.id)

    assert cloud.pods[0].status in ("EXITED", "TERMINATED")


def test_a_deletion_without_a_body_is_a_success_and_a_second_one_finds_nothing(cloud, runpod):
    machine = runpod.create(request_for())

    runpod.delete(machine.id)
    with pytest.raises(rental.NotFound):
        runpod.delete(machine.id)

    assert cloud.alive == []


def test_another_accounts_key_sees_nothing_and_deletes_nothing(cloud, runpod):
    from simulator.cloud import Key

    cloud.cloud.keys["rpa_other"] = Key("another account")
    machine = runpod.create(request_for())
    other = RunPodProvider(settings=settings_for(cloud).model_copy(update={"api_key": SecretStr("rpa_other")}))

    with pytest.raises(rental.NotFound):
        other.delete(machine.id)

    assert other.list_all() == ()
    assert other.account() != runpod.account()
    assert len(cloud.alive) == 1
    other.client.close()


def test_a_deleted_pod_may_linger_in_listings_as_terminated(cloud, runpod):
    cloud.cloud.queue.append(Scenario(silent=True, linger=60))
    machine = runpod.create(request_for())

    runpod.delete(machine.id)

    assert [m.status for m in runpod.list_all()] == ["terminated"]
    cloud.clock.skip(61)
    assert runpod.list_all() == ()


# candidates


def needs(**changes):
    return Needs(**{"gpu": A4000, "image": IMAGE, "volume_gb": 10, **changes})


def test_candidates_come_by_price_then_stock_and_an_empty_shelf_last(cloud, runpod):
    for host in cloud.cloud.hosts:
        if host.data_center == "US-KS-2":
            host.free = 0
        if host.data_center == "EU-RO-1":
            host.free = 1

    found = runpod.candidates(needs())

    assert [one.data_center for one in found] == ["CA-MTL-1", None, "EU-RO-1"]
    assert {(one.gpu, one.dollars_per_hour, one.minimum_cuda) for one in found} == {(A4000, 0.25, "12.8")}


def test_an_empty_catalogue_still_leaves_one_try_because_it_is_only_a_hint(cloud, runpod):
    for host in cloud.cloud.hosts:
        host.free = 0

    assert [(one.data_center, one.availability) for one in runpod.candidates(needs())] == [(None, "NONE")]


def test_both_clouds_are_looked_at_only_when_a_person_says_so(cloud, runpod):
    both = RunPodProvider(RunPodOptions(clouds=("SECURE", "COMMUNITY")), runpod.settings, runpod.client)

    assert {one.cloud for one in runpod.candidates(needs())} == {"SECURE"}
    assert both.candidates(needs())[0].cloud == "COMMUNITY"


def test_a_network_volume_decides_the_data_center_and_the_cloud_and_is_attached(cloud, runpod):
    cloud.cloud.volumes["vol1"] = {"id": "vol1", "name": "hub", "size": 50, "dataCenter": "US-KS-2", "type": "STANDARD"}

    found = runpod.candidates(needs(volume_gb=None, network_volume="vol1"))
    machine = runpod.create(request_for(candidate=found[0], volume_gb=None, network_volume="vol1"))
    runpod.delete(machine.id)

    assert {(one.data_center, one.cloud) for one in found} == {("US-KS-2", "SECURE")}
    assert (machine.network_volume, machine.mount_path) == ("vol1", "/workspace")
    assert "vol1" in cloud.cloud.volumes


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"gpu": "NVIDIA H100 80GB HBM4"}, "Did you mean 'NVIDIA H100 80GB HBM3'"),
        ({"image": "pytorch/pytorch:2.8.0-cuda12.8"}, "digest"),
        ({"image": None}, "image is missing"),
        ({"volume_gb": 5}, "10 GB"),
        ({"volume_gb": None, "network_volume": "nope"}, "no such volume"),
    ],
)
def test_what_cannot_be_rented_is_refused_before_anything_is_created(cloud, runpod, changes, words):
    with pytest.raises(rental.RequestRejected, match=words):
        runpod.candidates(needs(**changes))

    assert cloud.pods == []


@pytest.mark.parametrize(
    ("texts", "version"),
    [
        (("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel@sha256:cu99",), "12.8"),
        (("runpod/pytorch:1.0.2-cu1281-torch280", "cu126"), "12.8"),
        (("python:3.12", "cu130"), "13.0"),
        (("python:3.12", ""), None),
    ],
)
def test_the_newest_cuda_that_is_spoken_of_is_the_oldest_usable_driver(texts, version):
    assert minimum_cuda(*texts) == version


# boots that fail


def test_the_hosts_own_words_are_read_although_the_stream_never_ends(cloud, runpod, monkeypatch):
    monkeypatch.setattr("lab_runpod.client.QUIET_SECONDS", 0.2)
    line = "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver"
    cloud.cloud.queue.append(Scenario(stuck="STARTING", provisioning=0, system_log=[line]))
    machine = runpod.create(request_for())

    lines = runpod.system_logs(machine.id)

    assert line in lines
    assert "driver is older" in runpod.boot_failure(lines)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["toomanyrequests: You have reached your pull rate limit"] * 3, "limits pulls"),
        (["manifest unknown: manifest unknown"], "does not exist"),
        (["failed to register layer: layer does not exist"], "image store"),
        (["OCI runtime create failed: runc create failed"], "could not be created"),
        (["write /var/lib/docker/x: no space left on device"], "no space"),
    ],
)
def test_each_boot_that_cannot_work_is_recognised(lines, words):
    assert words in boot.failure(lines)


@pytest.mark.parametrize(
    "lines", [[], ["toomanyrequests: retrying"], ["pulling image", "503 Service Unavailable", "create container"]]
)
def test_a_boot_that_may_still_work_is_left_alone(lines):
    assert boot.failure(lines) is None


# the second way, and the Pod's own


class FakePackage:
    """The official package as far as lab uses it: it answers failures with whatever it likes."""

    def __init__(self, error=None):
        self.calls, self.api_key, self.error = [], None, error

    def stop_pod(self, pod_id):
        self.calls.append(("stop", pod_id, self.api_key))
        if self.error:
            raise self.error

    terminate_pod = stop_pod


def test_the_official_package_gets_the_key_for_one_call_only(cloud, runpod, monkeypatch):
    package = FakePackage()
    monkeypatch.setitem(__import__("sys").modules, "runpod", package)

    runpod.emergency_stop("abc")

    assert package.calls == [("stop", "abc", cloud.account_key)]
    assert package.api_key is None


def test_any_failure_of_the_official_package_leaves_it_uncertain(runpod, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "runpod", FakePackage(KeyError("data")))

    with pytest.raises(rental.UncertainOutcome):
        runpod.emergency_delete("abc")


def test_without_the_package_there_is_no_second_way(runpod, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "runpod", None)

    with pytest.raises(rental.NoSecondWay, match="runpod-sdk"):
        runpod.emergency_stop("abc")


@pytest.mark.parametrize("policy", ["allowed", "forbidden"])
def test_a_pods_own_key_stops_that_pod_if_the_service_lets_it(cloud, runpod, policy):
    cloud.cloud.pod_keys = policy
    machine = runpod.create(request_for())
    way = runpod.self_stop()[0]
    variables = {"RUNPOD_POD_ID": machine.id, "RUNPOD_API_KEY": cloud.pods[0].key}

    def filled(text):
        for name, value in variables.items():
            text = text.replace("{" + name + "}", value)
        return text

    headers = {name: filled(value) for name, value in way.headers.items()}
    answer = httpx.request(way.method, filled(way.url), headers=headers, content=way.body)

    assert answer.status_code == (200 if policy == "allowed" else 403)
    assert (cloud.pods[0].status == "EXITED") == (policy == "allowed")


# settings


def test_the_service_is_reached_by_https_or_on_this_machine_only():
    with pytest.raises(ValidationError, match="neither https"):
        RunPodSettings(api_url="http://api.runpod.io/v2")
    with pytest.raises(ValidationError, match="neither https"):
        RunPodSettings(proxy_url="http://{pod_id}-{port}.proxy.runpod.net")
    with pytest.raises(ValidationError, match="lacks"):
        RunPodSettings(proxy_url="https://proxy.runpod.net")
    assert RunPodSettings(api_url="http://localhost:1/v2/").api_url == "http://localhost:1/v2"


def test_a_wrong_variable_is_named(project, monkeypatch):
    monkeypatch.setenv("LAB_RUNPOD_API_URL", "http://example.com")

    with pytest.raises(UsageError, match="LAB_RUNPOD_API_URL"):
        read_settings()


def test_the_key_is_read_from_the_projects_env_file_and_not_shown(project):
    (project / ".env").write_text("RUNPOD_API_KEY=rpa_planted_in_env\n")

    settings = read_settings()

    assert settings.api_key.get_secret_value() == "rpa_planted_in_env"
    assert "rpa_planted_in_env" not in repr(settings) + settings.model_dump_json()


def test_the_agent_is_reached_through_the_proxy(runpod, cloud):
    assert runpod.agent_url("abc", 8765) == f"{cloud.url}/proxy/abc/8765"
    assert RunPodProvider(settings=RunPodSettings()).agent_url("abc", 8765) == "https://abc-8765.proxy.runpod.net"
    assert "abc" in runpod.console_url("abc")


def test_a_stopped_disk_has_a_price(runpod):
    assert runpod.stopped_dollars_per_hour(100) * 730 == pytest.approx(20.0)
