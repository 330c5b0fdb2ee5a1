"""Faults of creation, visibility, boot, stop and deletion: HTTP as it really breaks, and what the rental makes of it.

The Pods here never run anything, so a rental ends before its job: what is judged is that none is forgotten or doubled.
"""

from __future__ import annotations

import errno

import pytest
from simulated_rental import ONE_PLACE, World
from simulator import Scenario, Simulator

from lab.rental.facts import State

CREATE = {"method": "POST", "path": "/v2/pods$"}


@pytest.fixture
def cloud():
    with Simulator(factor=200) as simulator:
        simulator.cloud.usual = Scenario(silent=True)
        yield simulator


@pytest.fixture
def world(cloud, project, request):
    world = World(cloud, project, request.node)
    yield world
    world.close()


def rent(world, **options):
    """One rental of which nothing comes, on one kind of machine in one place."""
    run, job = world.job()
    return world.whole(run, job, **{"ready_minutes": 0.5, **options})


# creating


@pytest.mark.fault(1, "no machine")
@pytest.mark.fault(20, "no machine")
def test_a_pod_whose_creation_answered_500_is_found_in_a_late_listing_and_adopted(cloud, world):
    cloud.cloud.queue.append(Scenario(silent=True, list_lag=60))
    fault = cloud.arm("answer", **CREATE, status=500, applied=True)

    ending = rent(world)

    assert fault.fired == 1
    assert "found in a listing" in world.events(ending.run)
    assert (ending.word, len(cloud.pods), len(cloud.alive)) == ("no machine", 1, 0)


@pytest.mark.fault(2, "no machine")
def test_a_pod_that_is_created_long_after_the_time_out_is_found_and_adopted(cloud, world):
    fault = cloud.arm("delay", **CREATE, seconds=80)
    run, job = world.job()

    ending = world.whole(run, job, world.backend(world.settings(create_seconds=0.2), ready_minutes=0.5))

    assert fault.fired == 1
    assert "found in a listing" in world.events(run)
    assert (ending.word, len(cloud.pods), len(cloud.alive)) == ("no machine", 1, 0)


@pytest.mark.fault(3, "no machine")
def test_a_creation_that_was_reset_before_it_arrived_is_given_up_only_after_complete_listings(cloud, world):
    fault = cloud.arm("reset", **CREATE)

    ending = rent(world)

    assert fault.fired == 1
    assert "absent from complete listings" in world.events(ending.run)
    assert len(cloud.trace.requests("GET", "/v2/pods")) >= 3
    assert (ending.word, cloud.pods) == ("no machine", [])


@pytest.mark.fault(4, "no machine")
@pytest.mark.fault(5, "no machine")
@pytest.mark.parametrize(
    "fault",
    [
        {"effect": "truncate", "offset": 60},
        {"effect": "cut", "offset": 60},
        {"effect": "patch", "change": {"id": None}},
    ],
    ids=["torn", "cut", "no id"],
)
def test_an_answer_that_cannot_be_read_leads_to_the_listing_and_never_to_a_second_creation(cloud, world, fault):
    armed = cloud.arm(**fault, **CREATE)

    ending = rent(world)

    assert armed.fired == 1
    assert len(cloud.trace.requests("POST", "/v2/pods")) == 1
    assert "found in a listing" in world.events(ending.run)
    assert (ending.word, len(cloud.pods)) == ("no machine", 1)


@pytest.mark.fault(5, "no machine")
@pytest.mark.fault(16, "no machine")
@pytest.mark.fault(17, "no machine")
@pytest.mark.parametrize(
    ("scenario", "change", "why"),
    [
        ({}, {"cost": None}, "no price"),
        ({"cost": 9.0}, {}, "above the cap"),
        ({"drop_mounts": True}, {}, "no disk that survives"),
        ({}, {"gpu": {"id": "NVIDIA RTX A4000", "count": 2}}, "2 GPUs"),
    ],
    ids=["cost null", "cost above cap", "mounts missing", "two GPUs"],
)
def test_a_pod_that_is_not_what_was_agreed_to_is_deleted_at_once(cloud, world, scenario, change, why):
    cloud.cloud.queue.append(Scenario(silent=True, **scenario))
    if change:
        cloud.arm("patch", **CREATE, change=change)

    ending = rent(world, max_price=0.30)

    assert why in " ".join(world.said)
    assert (ending.word, len(cloud.pods), cloud.alive) == ("no machine", 1, [])
    assert cloud.cloud.spent() < 0.5


@pytest.mark.fault(6, "no machine")
@pytest.mark.fault(9, "no machine")
@pytest.mark.parametrize("status", [400, 403])
def test_a_candidate_that_cannot_be_had_gives_way_to_the_next_one(cloud, world, status):
    fault = cloud.arm("answer", **CREATE, status=status, times=2)

    ending = rent(world, data_centers=("EU-RO-1", "US-KS-2", "CA-MTL-1"))

    assert fault.fired == 2
    assert len(cloud.pods) == 1
    names = [
        record["data"]["name"]
        for record in world.backends[-1].journal(ending.run.id).records()
        if record["event"] == "create"
    ]
    assert len(names) == len(set(names)) == 3


@pytest.mark.fault(7, "no machine")
@pytest.mark.fault(18, "no machine")
def test_when_every_candidate_is_refused_the_services_last_words_are_the_answer(cloud, world):
    words = '{"title": "Bad Request", "status": 400, "detail": "objectMounts is not allowed"}'
    fault = cloud.arm(
        "answer", **CREATE, status=400, body=words, headers={"Content-Type": "application/problem+json"}, times=None
    )

    ending = rent(world, data_centers=("EU-RO-1", "US-KS-2"))

    assert fault.fired == 2
    assert "objectMounts" in " ".join(world.said) + str(ending.error)
    assert (ending.word, cloud.pods) == ("no machine", [])


@pytest.mark.fault(8, "no machine")
@pytest.mark.fault(11, "no machine")
@pytest.mark.fault(12, "no machine")
@pytest.mark.fault(14, "no machine")
@pytest.mark.fault(15, "no machine")
@pytest.mark.parametrize("status", [401, 402, 410, 413, 422])
def test_a_refusal_that_no_candidate_can_change_ends_it_after_one_request(cloud, world, status):
    fault = cloud.arm("answer", **CREATE, status=status, times=None)

    ending = rent(world, data_centers=("EU-RO-1", "US-KS-2"))

    assert fault.fired == 1
    assert (ending.word, cloud.pods) == ("no machine", [])
    assert ending.error is not None


@pytest.mark.fault(10, "no machine")
def test_a_block_by_the_edge_is_no_bad_key_and_creates_nothing(cloud, world):
    fault = cloud.arm("answer", **CREATE, status=403, body="error code: 1010", headers={"Content-Type": "text/plain"})

    ending = rent(world)

    assert fault.fired == 1
    assert (ending.word, cloud.pods) == ("no machine", [])


@pytest.mark.fault(13, "no machine")
@pytest.mark.parametrize(
    "headers",
    [
        {"Retry-After": "20"},
        {"Retry-After": "2", "RateLimit": '"minute";r=9;t=12, "hour";r=0;t=90'},
        {"RateLimit": "nonsense"},
    ],
    ids=["Retry-After", "hour window", "malformed"],
)
def test_a_rate_limit_is_waited_for_because_it_is_certain_that_nothing_was_created(cloud, world, headers):
    fault = cloud.arm("answer", **CREATE, status=429, headers=headers, times=2)

    ending = rent(world)

    first, second, _ = cloud.trace.requests("POST", "/v2/pods")
    assert fault.fired == 2
    assert second.time - first.time >= {"20": 20, "2": 90}.get(headers.get("Retry-After"), 5)
    assert (ending.word, len(cloud.pods)) == ("no machine", 1)


@pytest.mark.fault(15, "needs attention")
def test_a_key_that_is_revoked_while_a_pod_lives_is_the_loudest_end(cloud, world):
    run, job = world.job()
    backend = world.backend(ready_minutes=2)
    cloud.arm("answer", status=401, path="/v2/pods/", times=None)

    ending = world.whole(run, job, backend)

    pod = cloud.pods[0]
    assert (ending.word, ending.error.exit_code) == ("needs attention", 5)
    assert pod.id in str(ending.error)
    assert "console" in str(ending.error)


# seeing


@pytest.mark.fault(19, "no machine")
def test_a_fresh_pod_that_get_does_not_know_yet_is_waited_for(cloud, world):
    cloud.cloud.queue.append(Scenario(silent=True, get_lag=10))

    ending = rent(world)

    assert (ending.word, len(cloud.pods)) == ("no machine", 1)
    assert ending.facts.state is not State.LOST


@pytest.mark.fault(21, "no machine")
@pytest.mark.parametrize(
    "fault",
    [
        {"effect": "answer", "status": 502, "times": 4},
        {"effect": "patch", "change": {"pagination": {"hasNextPage": True, "nextCursor": None}}, "times": 4},
        {"effect": "patch", "change": {"pagination": {"hasNextPage": True, "nextCursor": "c0"}}, "times": 8},
    ],
    ids=["fails", "no cursor", "loops"],
)
def test_half_a_listing_neither_finds_nor_excludes_a_pod(cloud, world, fault):
    cloud.arm("answer", **CREATE, status=500, applied=True)
    armed = cloud.arm(**fault, method="GET", path="/v2/pods$")

    ending = rent(world)

    assert armed.fired == fault["times"]
    assert "found in a listing" in world.events(ending.run)
    assert (ending.word, len(cloud.pods)) == ("no machine", 1)


@pytest.mark.fault(22, "no machine")
def test_a_strangers_pod_of_the_same_name_is_neither_adopted_nor_deleted(cloud, world):
    seen = []

    def stranger():
        for exchange in cloud.trace.requests("POST", "/v2/pods"):
            body = __import__("json").loads(exchange.body)
            pod = cloud.cloud.create("account", {**body, "env": {"LAB_NONCE": "somebody else's"}})
            seen.append(pod.id)
            world.may_live.add(pod.id)

    cloud.arm("reset", **CREATE)
    run, job = world.job()
    backend = world.backend(ready_minutes=0.5)
    original = backend.provider.create

    def create(request):
        try:
            return original(request)
        finally:
            cloud.do(stranger)

    backend.provider.create = create
    ending = world.whole(run, job, backend)

    assert [pod.id for pod in cloud.alive] == seen
    assert (ending.word, len(seen)) == ("no machine", 1)


@pytest.mark.fault(23, "no machine")
def test_new_words_new_fields_and_a_renamed_price_in_a_description_do_no_harm(cloud, world):
    fault = cloud.arm(
        "patch",
        method="GET",
        path="/v2/pods/",
        change={"status": "HIBERNATING", "cost": "ABSENT", "new": 1},
        times=None,
    )

    ending = rent(world)

    assert fault.fired > 2
    assert (ending.word, cloud.alive) == ("no machine", [])


@pytest.mark.fault(24, "no machine")
def test_an_empty_listing_during_an_outage_is_no_proof_by_itself(cloud, world):
    fault = cloud.arm("patch", method="GET", path="/v2/pods$", change={"pods": []}, times=2)
    cloud.arm("answer", **CREATE, status=500, applied=True)

    ending = rent(world)

    assert fault.fired == 2
    assert "found in a listing" in world.events(ending.run)
    assert (ending.word, len(cloud.pods)) == ("no machine", 1)


# booting


@pytest.mark.fault(26, "no machine")
@pytest.mark.fault(27, "no machine")
@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8"], "driver is older"),
        (["OCI runtime create failed: runc create failed"], "could not be created"),
        (["toomanyrequests: You have reached your unauthenticated pull rate limit"] * 3, "limits pulls"),
    ],
    ids=["CUDA", "OCI", "pull loop"],
)
def test_a_boot_that_the_hosts_log_calls_hopeless_is_not_waited_for(cloud, world, monkeypatch, lines, why):
    monkeypatch.setattr("lab_runpod.client.QUIET_SECONDS", 0.1)
    cloud.cloud.queue.append(Scenario(stuck="STARTING", provisioning=0, system_log=lines))

    ending = rent(world, ready_minutes=20)

    assert why in " ".join(world.said)
    assert (ending.word, cloud.alive) == ("no machine", [])
    assert cloud.cloud.spent() < 0.5


@pytest.mark.fault(28, "no machine")
@pytest.mark.fault(30, "deleted")
@pytest.mark.parametrize("word", ["ERROR", "EXITED"])
def test_a_pod_that_fails_or_stops_while_it_starts_is_deleted(cloud, world, word):
    cloud.cloud.queue.append(Scenario(ends=word, ends_after=10, silent=True))

    ending = rent(world, ready_minutes=20)

    assert any(event.what == word.lower() for event in cloud.trace.events)
    assert cloud.alive == []
    assert ending.word in ("no machine", "deleted")


@pytest.mark.fault(29, "no machine")
@pytest.mark.parametrize("phase", ["PROVISIONING", "STARTING"])
def test_a_pod_that_never_starts_is_deleted_when_its_time_is_over(cloud, world, phase):
    cloud.cloud.queue.append(Scenario(stuck=phase))

    ending = rent(world, ready_minutes=1)

    assert "not ready after" in " ".join(world.said)
    assert (ending.word, cloud.alive) == ("no machine", [])
    assert len(cloud.trace.requests("DELETE", cloud.pods[0].id)) == 1


@pytest.mark.fault(31, "lost")
def test_a_pod_that_somebody_deletes_while_it_starts_is_noticed_soon(cloud, world):
    cloud.cloud.queue.append(Scenario(stuck="STARTING", ends="TERMINATED", ends_after=20))

    ending = rent(world, ready_minutes=20)

    assert ending.word in ("lost", "no machine")
    assert (len(cloud.pods), cloud.alive) == (1, [])
    assert cloud.clock.now() < 400


# deleting


@pytest.mark.fault(61, "no machine")
def test_a_pod_that_is_still_listed_as_terminated_is_not_called_gone(cloud, world):
    cloud.cloud.queue.append(Scenario(silent=True, linger=60))

    ending = rent(world)

    proved = next(r for r in world.backends[-1].journal(ending.run.id).records() if r["event"] == "proved gone")
    asked = next(r for r in world.backends[-1].journal(ending.run.id).records() if r["event"] == "asked to delete")
    assert proved["time"] - asked["time"] >= 60
    assert ending.word == "no machine"


@pytest.mark.fault(62, "no machine")
def test_a_pod_that_comes_back_after_its_deletion_is_deleted_again(cloud, world):
    cloud.cloud.queue.append(Scenario(silent=True, deletes_ignored=1, hidden=6))

    ending = rent(world)

    assert len(cloud.trace.requests("DELETE", cloud.pods[0].id)) == 2
    assert "still there" in world.events(ending.run)
    assert (ending.word, cloud.alive) == ("no machine", [])


@pytest.mark.fault(63, "needs attention")
def test_with_another_accounts_key_nothing_is_believed_and_nothing_is_done(cloud, world):
    from simulator.cloud import Key

    cloud.cloud.keys["rpa_other"] = Key("another account")
    cloud.arm("answer", method="DELETE", status=503, times=None)
    ending = rent(world)
    cloud.faults.disarm()
    other = world.backend(world.settings(key="rpa_other"))

    from lab.errors import StillBilling

    with pytest.raises(StillBilling, match="another key"):
        other.terminate(other_receipt(ending.run))

    assert ending.word == "needs attention"
    assert len(cloud.alive) == 1
    world.backend().terminate(other_receipt(ending.run))
    assert cloud.alive == []


def other_receipt(run):
    from lab.contracts import Receipt

    return Receipt("runpod", run.id, "")


@pytest.mark.fault(64, "no machine")
@pytest.mark.parametrize("effect", [{"effect": "answer", "status": 500}, {"effect": "reset"}], ids=["500", "reset"])
def test_a_deletion_whose_answer_got_lost_is_proved_all_the_same(cloud, world, effect):
    fault = cloud.arm(**effect, method="DELETE", applied=True)

    ending = rent(world)

    assert fault.fired == 1
    assert (ending.word, cloud.alive) == ("no machine", [])


@pytest.mark.fault(64, "needs attention")
def test_a_pod_that_cannot_be_deleted_is_named_and_any_later_command_tries_again(cloud, world):
    fault = cloud.arm("answer", method="DELETE", status=500, times=None)

    ending = rent(world)

    assert fault.fired > 5
    assert (ending.word, ending.error.exit_code) == ("needs attention", 5)
    assert cloud.pods[0].id in str(ending.error)
    cloud.faults.disarm()
    again = world.backend()
    again.reconcile(other_receipt(ending.run))
    assert (str(again.facts(ending.run.id).state), cloud.alive) == ("deleted", [])


def test_a_pod_that_was_deleted_by_hand_is_deleted_for_us_too_however_often_it_is_asked_for(cloud, world):
    cloud.arm("answer", method="DELETE", status=500, times=None)
    ending = rent(world)
    cloud.do(lambda: cloud.cloud.life.terminate(cloud.pods[0]))
    cloud.faults.disarm()
    backend = world.backend()

    backend.terminate(other_receipt(ending.run))
    backend.terminate(other_receipt(ending.run))

    facts = backend.facts(ending.run.id)
    assert (str(facts.state), facts.already_gone) == ("deleted", True)


def test_the_official_package_ends_a_pod_when_rest_does_not(cloud, world, monkeypatch):
    class Package:
        api_key = None

        def terminate_pod(self, pod_id):
            cloud.do(lambda: cloud.cloud.life.terminate(cloud.cloud.pods[pod_id]))

    monkeypatch.setitem(__import__("sys").modules, "runpod", Package())
    cloud.arm("answer", method="DELETE", status=500, times=None)

    ending = rent(world)

    assert (ending.word, cloud.alive) == ("no machine", [])
    assert len(cloud.trace.requests("DELETE", cloud.pods[0].id)) > 5


# the laptop's own disk


@pytest.mark.fault(67, "deleted")
def test_a_journal_whose_last_line_was_torn_by_a_crash_is_read_up_to_there(cloud, world):
    cloud.arm("answer", method="DELETE", status=500, times=None)
    ending = rent(world)
    cloud.faults.disarm()
    with world.backends[-1].journal(ending.run.id).path.open("ab") as journal:
        journal.write(b'{"schema":1,"seq":99,"state":"dele')

    world.backend().terminate(other_receipt(ending.run))

    assert str(world.facts(ending.run).state) == "deleted"
    assert cloud.alive == []


@pytest.mark.fault(67, "creating")
def test_a_laptop_whose_disk_is_full_when_the_pod_exists_deletes_it_at_once_and_says_so(cloud, world):
    backend = world.backend()

    def sync(handle):
        if cloud.trace.requests("POST", "/v2/pods"):
            raise OSError(errno.ENOSPC, "No space left on device")

    backend._sync = sync
    run, job = world.job()

    ending = world.whole(run, job, backend)

    assert ending.error.exit_code == 5
    assert cloud.pods[0].id in str(ending.error)
    assert "No space left" in str(ending.error)
    assert (len(cloud.pods), cloud.alive) == (1, [])


def test_an_old_pod_of_another_project_on_the_account_is_left_alone(cloud, world):
    body = {"name": "lab-0a1b2c3d-1-1796112000-abcdef", "image": "x", "gpu": {"id": "NVIDIA RTX A4000", "count": 1}}
    stranger = cloud.do(lambda: cloud.cloud.create("account", {**body, "env": {"LAB_OWNER": "somebody else"}}))
    world.may_live.add(stranger.id)

    rent(world)
    owned = world.backend().owned()

    assert stranger.alive
    assert stranger.id not in {resource.handle for resource in owned}
    assert ONE_PLACE
