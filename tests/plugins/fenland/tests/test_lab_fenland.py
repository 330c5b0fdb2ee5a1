"""Does Fenland keep the contract of a backend, and are its words understood?"""

from __future__ import annotations

import pytest
from fake_fenland import MODEL, PASS, Fenland
from lab_fenland.backend import FenlandBackend
from lab_fenland.boxes import dollars_per_hour, machine
from lab_fenland.options import FenlandOptions
from lab_fenland.provider import FenlandProvider

from lab.conformance import ScaledClock
from lab.rental import (
    CreateRequest,
    Needs,
    NoCapacity,
    NotAuthorized,
    NotFound,
    RateLimited,
    RequestRejected,
    UncertainOutcome,
    Unreachable,
)


@pytest.fixture
def cloud(tmp_path, lab_project, monkeypatch):
    with Fenland(tmp_path / "fenland") as cloud:
        monkeypatch.setenv("FENLAND_API", cloud.address)
        monkeypatch.setenv("FENLAND_PASS", PASS)
        yield cloud


@pytest.fixture
def provider(cloud):
    return FenlandProvider(FenlandOptions())


def ordered(provider, name="box"):
    offered = provider.candidates(Needs(gpu=MODEL))[0]
    environment = {"LAB_WORKSPACE": "/data/lab", "LAB_RUN_ID": name}
    return provider.create(
        CreateRequest(name, offered, "image", ("sleep", "60"), environment, 8765, 30, "/data", volume_gb=20)
    )


def test_it_keeps_the_contract(check_backend, cloud, lab_project):
    def build():
        return FenlandBackend(FenlandOptions(sites=("south",)), clock=ScaledClock(), store=lab_project / ".lab")

    check_backend("fenland", build, lab_project / ".runs", needs=Needs(gpu=MODEL, image="image:1", volume_gb=20))

    assert (len(cloud.boxes), cloud.alive) == (3, [])


def test_a_box_is_a_machine(provider):
    box = ordered(provider)

    assert (box.name, box.status, box.gpu, box.gpus, box.data_center) == ("box", "starting", MODEL, 1, "north")
    assert (box.dollars_per_hour, box.mount_path, box.volume_gb) == (0.75, "/data", 20)
    assert box.environment["LAB_RUN_ID"] == "box"


def test_a_listing_is_read_to_its_last_page(provider):
    made = [ordered(provider, f"box{number}").id for number in range(5)]

    assert [box.id for box in provider.list_all()] == made


def test_a_box_has_another_address_after_each_wake(provider):
    box = ordered(provider).id
    with pytest.raises(Unreachable):
        provider.agent_url(box, 8765)
    provider.get(box)
    first = provider.agent_url(box, 8765)

    provider.stop(box)
    provider.start(box)
    provider.get(box)

    assert provider.agent_url(box, 8765) != first


def test_a_box_parks_itself_by_its_own_pass(cloud, provider):
    box = ordered(provider).id

    cloud.machines[int(box)].stop_itself(provider.self_stop())

    assert provider.get(box).status == "stopped"


@pytest.mark.parametrize(
    ("word", "error"),
    [("SOLD_OUT", NoCapacity), ("BAD_ORDER", RequestRejected), ("NEW_WORD", UncertainOutcome)],
)
def test_a_fault_of_a_launch_is_understood(cloud, provider, word, error):
    cloud.faults["boxes.launch"] = [word]

    with pytest.raises(error):
        ordered(provider)


def test_a_fault_says_how_long_to_wait(cloud, provider):
    cloud.faults["boxes.all"] = ["SLOW_DOWN"]

    with pytest.raises(RateLimited) as caught:
        provider.list_all()

    assert caught.value.retry_after == 2.0


def test_a_dropped_box_is_not_found(provider):
    box = ordered(provider).id
    provider.delete(box)

    with pytest.raises(NotFound):
        provider.get(box)


def test_without_a_pass_nothing_is_asked(cloud, provider, monkeypatch):
    monkeypatch.delenv("FENLAND_PASS")
    asked = list(cloud.asked)

    with pytest.raises(NotAuthorized, match="FENLAND_PASS is not set"):
        FenlandProvider(FenlandOptions()).list_all()

    assert cloud.asked == asked


@pytest.mark.parametrize(("cents", "dollars"), [("1.25", 0.75), ("0", 0.0), ("-1", None), (None, None), ("NaN", None)])
def test_cents_a_minute_are_dollars_an_hour_and_what_is_no_price_is_none(cents, dollars):
    assert dollars_per_hour(cents) == dollars


def test_a_new_word_for_a_phase_is_unknown():
    assert machine({"box": 1, "label": "x", "phase": "dreaming"}).status == "unknown"
