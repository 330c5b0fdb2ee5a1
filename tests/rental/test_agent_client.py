"""The client: what is not provably the agent's own, whole and unchanged answer counts as none."""

from __future__ import annotations

import gzip
import hashlib
import json

import httpx
import pytest

from lab.rental.agent_client import HttpAgent
from lab.rental.agent_contract import AgentRefused, AgentUnreachable, JobRequest
from rental.virtual import VirtualClock

HELLO = {"nonce": "n", "boot_id": "b", "uptime_seconds": 1.0, "gpus": ["H100"], "disk_free_bytes": 5, "boots": 1}
DATA = bytes(range(256)) * 8


def own(body, status=200):
    content = json.dumps({"service": "lab-agent", **body}).encode()
    return httpx.Response(status, content=content, headers={"X-Body-SHA256": hashlib.sha256(content).hexdigest()})


def cut(response):
    return httpx.Response(200, content=response.content[:-5], headers=response.headers)


def agent(*answers, clock=None):
    """An agent behind a proxy that gives these answers, one after the other."""
    left = list(answers)
    seen = []

    def handle(request):
        seen.append(request)
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    made = HttpAgent("http://127.0.0.1:1", "token", clock or VirtualClock(), httpx.MockTransport(handle))
    made.seen = seen
    return made


def test_an_answer_of_its_own_is_understood():
    hello = agent(own(HELLO)).hello()

    assert (hello.nonce, hello.gpus) == ("n", ("H100",))


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<html>Welcome to nginx!</html>"),
        httpx.Response(404, html="not found"),
        httpx.Response(502, html="bad gateway"),
        httpx.Response(524, content=b"error code: 524"),
        httpx.Response(200, json=HELLO),
        httpx.Response(200, content=own(HELLO).content, headers={"X-Body-SHA256": "0" * 64}),
        cut(own(HELLO)),
        own({"service": "something else", **HELLO}),
        own({key: value for key, value in HELLO.items() if key != "boot_id"}),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("slow"),
        httpx.RemoteProtocolError("reset"),
    ],
)
@pytest.mark.fault(34, "no answer: asked again")
def test_what_is_not_its_own_answer_is_none(answer):
    with pytest.raises(AgentUnreachable):
        agent(answer).hello()


def test_its_own_refusal_is_understood_and_a_proxys_is_not():
    with pytest.raises(AgentRefused, match="full") as refused:
        agent(own({"error": "no-space", "message": "full"}, 507)).commit("a", 1)
    with pytest.raises(AgentRefused) as unknown:
        agent(own({"error": "brand-new", "message": "what"}, 400)).commit("a", 1)
    with pytest.raises(AgentUnreachable):
        agent(httpx.Response(413, html="too large")).commit("a", 1)

    assert refused.value.code == "no-space"
    assert unknown.value.code == "invalid"


def octets(content, **headers):
    """A body as it comes over a wire: in pieces, read once."""
    kind = {"Content-Type": "application/octet-stream", "Content-Length": str(len(content)), **headers}
    return httpx.Response(200, content=iter([content[:100], content[100:]]), headers=kind)


def test_bytes_arrive_as_they_are_and_no_cache_can_serve_them_twice():
    one = agent(octets(DATA), octets(DATA))

    assert b"".join(one.blob("a b.txt", 0, len(DATA))) == DATA
    assert b"".join(one.blob("a b.txt", 0, len(DATA))) == DATA
    assert one.seen[0].url != one.seen[1].url
    assert one.seen[0].url.params["path"] == "a b.txt"
    assert one.seen[0].headers["Accept-Encoding"] == "identity"
    assert "token" not in str(one.seen[0].url)


@pytest.mark.parametrize(
    "answer",
    [
        octets(gzip.compress(DATA), **{"Content-Encoding": "gzip"}),
        octets(DATA[:-1]),
        octets(DATA + b"more"),
        httpx.Response(200, html="<html>"),
        httpx.Response(206, content=DATA, headers={"Content-Type": "application/octet-stream"}),
        httpx.Response(502, content=DATA, headers={"Content-Type": "application/octet-stream"}),
        own(HELLO),
        httpx.ReadError("reset"),
    ],
)
@pytest.mark.fault(38, "not believed: fetched again")
@pytest.mark.fault(44, "not believed: fetched again")
def test_bytes_of_another_length_kind_or_coding_are_not_believed(answer):
    with pytest.raises(AgentUnreachable):
        list(agent(answer).blob("x", 0, len(DATA)))


@pytest.mark.fault(45, "broken off after a minute; what came is kept")
def test_a_body_that_trickles_in_is_broken_off_with_what_came():
    clock = VirtualClock()

    def trickle():
        for byte in DATA:
            clock.sleep(1.0)
            yield bytes([byte])

    headers = {"Content-Type": "application/octet-stream", "Content-Length": str(len(DATA))}
    got = []
    with pytest.raises(AgentUnreachable, match="trickles"):
        got.extend(agent(httpx.Response(200, content=trickle(), headers=headers), clock=clock).blob("x", 0, len(DATA)))

    assert clock.seconds < len(DATA)


def test_variables_travel_in_the_body_alone():
    one = agent(own({}))

    one.variables({"NAME": "secret-value"})

    (request,) = one.seen
    assert json.loads(request.content) == {"values": {"NAME": "secret-value"}}
    assert "secret-value" not in str(request.url) + str(request.headers)


def test_a_job_is_sent_whole_and_a_missing_report_is_no_answer():
    report = {"request_id": "1", "phase": "running", "stage": None, "exit_code": None, "reason": "", "seconds": 0.0}
    one = agent(own({"job": report}), own({"job": None}))
    request = JobRequest("1", "a" * 64, {"stages": []})

    assert one.start(request).phase == "running"
    with pytest.raises(AgentUnreachable):
        one.start(request)
    assert json.loads(one.seen[0].content)["bundle_sha256"] == "a" * 64
