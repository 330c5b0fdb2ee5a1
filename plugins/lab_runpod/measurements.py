"""What is measured on a live Pod: visibility, the proxy's phases and limits, and the ways to stop from inside."""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import httpx

from lab.rental.provider import NotFound, ProviderError
from lab_runpod import probe
from lab_runpod.visit import seconds

if TYPE_CHECKING:
    from lab_runpod.visit import Visit

MEBIBYTE = 1 << 20
READY_SECONDS = 600.0
SETTLE_SECONDS = 120.0
STOP_SECONDS = 60.0


def visible(visit: Visit, pod_id: str) -> None:
    """How long until GET and the listing show it."""
    seen = visit.timed(lambda: bool(visit.provider.get(pod_id)), SETTLE_SECONDS)
    listed = visit.timed(lambda: any(m.id == pod_id for m in visit.provider.list_all()), SETTLE_SECONDS)
    visit.note(
        "a new Pod is visible",
        None not in (seen, listed),
        f"GET after {seconds(seen)}, listing after {seconds(listed)}",
    )


def ready(visit: Visit, pod_id: str, old_boot: str) -> str:
    """Wait for the probe's own answer; return its boot id. The phases on the way are the measurement."""
    phases: list[str] = []
    began = visit.clock.monotonic()
    while visit.clock.monotonic() < began + READY_SECONDS:
        visit.check()
        state, boot = _hello(visit, pod_id, old_boot)
        if not phases or not phases[-1].startswith(state):
            phases.append(f"{state} from {visit.clock.monotonic() - began:.0f} s")
        if boot:
            visit.note("the proxy reaches the Pod", True, ", ".join(phases))
            return boot
        reason = visit.provider.boot_failure(visit.provider.system_logs(pod_id)) if state == "404" else None
        if reason:
            break
        visit.clock.sleep(3)
    raise ProviderError(f"the Pod did not answer: {', '.join(phases)}")


def _hello(visit: Visit, pod_id: str, old_boot: str) -> tuple[str, str]:
    """A word for what the proxy says now, and the boot id once it is the new one's."""
    try:
        answer = visit.ask(pod_id, "GET", "/hello")
        record = answer.json() if answer.status_code == 200 else {}
    except httpx.HTTPError as error:
        return type(error).__name__, ""
    except ValueError:
        return "a foreign page", ""
    if record.get("nonce") != visit.nonce:
        return str(answer.status_code), ""
    if record["boot_id"] == old_boot:
        return "the old boot", ""
    return f"200 with {len(record['gpus'])} GPUs", str(record["boot_id"])


def proxy(visit: Visit, pod_id: str, sizes: tuple[int, ...]) -> None:
    """Uploads by size, ranges with and without a cacheable name, and callers without a proper name."""
    for size in sizes:
        visit.check()
        body = (probe.BLOB * (size // len(probe.BLOB) + 1))[:size]
        visit.measure(f"an upload of {size / MEBIBYTE:.0f} MiB", partial(_upload, visit, pod_id, body))
    for path in ("/blob", "/blob.bin"):
        visit.measure(f"Range on {path}", partial(_range, visit, pod_id, path))
    visit.measure("the proxy takes any User-Agent", partial(_unnamed, visit, pod_id))


def _upload(visit: Visit, pod_id: str, body: bytes) -> tuple[bool, str]:
    """One body, with its hash."""
    began = visit.clock.monotonic()
    answer = visit.ask(pod_id, "PUT", "/upload", content=body)
    whole = answer.status_code == 200 and answer.json()["sha256"] == hashlib.sha256(body).hexdigest()
    return whole, f"{answer.status_code} after {visit.clock.monotonic() - began:.1f} s"


def _range(visit: Visit, pod_id: str, path: str) -> tuple[bool, str]:
    """A piece of the blob, and nothing but the piece."""
    answer = visit.ask(pod_id, "GET", path, headers={"Range": "bytes=1000-1999"})
    kept = answer.status_code == 206 and answer.content == probe.BLOB[1000:2000]
    return kept, f"{answer.status_code}, {len(answer.content)} bytes"


def _unnamed(visit: Visit, pod_id: str) -> tuple[bool, str]:
    """The name that scripts give themselves, which some proxies refuse."""
    answer = visit.ask(pod_id, "GET", "/hello", headers={"User-Agent": "Python-urllib/3.12"})
    return answer.status_code == 200, f"{answer.status_code}"


def stopped(visit: Visit, pod_id: str) -> None:
    """Which way a Pod may stop itself, and what it costs then."""
    for way in visit.provider.self_stop():
        visit.check()
        with contextlib.suppress(httpx.HTTPError):  # a Pod that stops at once takes its answer with it
            visit.ask(pod_id, "POST", "/stop", content=json.dumps(asdict(way)).encode())
        took = visit.timed(lambda: visit.provider.get(pod_id).status == "stopped", STOP_SECONDS)
        name = "self-stop by " + (" ".join(way.argv[:1]) or way.url.rsplit("/", 1)[-1])
        if took is not None:
            visit.note(name, True, f"EXITED after {seconds(took)}")
            break
        visit.measure(name, partial(_refused, visit, pod_id))
    else:
        visit.provider.stop(pod_id)
        visit.timed(lambda: visit.provider.get(pod_id).status == "stopped", STOP_SECONDS)
    cost = visit.provider.get(pod_id).dollars_per_hour
    visit.note("the price while stopped", cost is not None, f"${cost}/h")


def _refused(visit: Visit, pod_id: str) -> tuple[bool, str]:
    """What the Pod was told when it tried."""
    return False, str(visit.ask(pod_id, "GET", "/tried").json().get("answer", "no answer"))


def started(visit: Visit, pod_id: str, boot: str) -> None:
    """Whether it starts again, and for how long the proxy still answers with the old boot."""
    visit.provider.start(pod_id)
    ready(visit, pod_id, boot)


def gone(visit: Visit, pod_id: str) -> bool:
    """Whether GET and the listing both say so; how long each took is a result."""

    def missing() -> bool:
        try:
            visit.provider.get(pod_id)
        except NotFound:
            return True
        return False

    unseen = visit.timed(missing, SETTLE_SECONDS)
    unlisted = visit.timed(lambda: all(m.id != pod_id for m in visit.provider.list_all()), SETTLE_SECONDS)
    passed = unseen is not None and unlisted is not None
    visit.note("a deleted Pod is gone", passed, f"GET 404 after {seconds(unseen)}, unlisted after {seconds(unlisted)}")
    return passed
