"""Catalogue and bills: what could be rented, at which list price, and what was paid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .hosts import CENTERS, TYPES, GpuType, Host, level, numbers
from .problems import Problem

if TYPE_CHECKING:
    from .operations import Answer, Call

BUCKETS = {"hour": 3600, "day": 86400, "week": 7 * 86400, "month": 30 * 86400, "year": 365 * 86400}


def _hosts(call: Call, gpu: str) -> list[Host]:
    """The hosts with this GPU that the query's filters admit."""
    query = call.query
    exact = [version for version in query.get("cudaVersions", "").split(",") if version]
    floor = query.get("minCudaVersion")
    return [
        host
        for host in call.cloud.hosts
        if host.gpu == gpu
        and host.cloud == query.get("cloud", host.cloud)
        and (not exact or host.cuda in exact)
        and (floor is None or numbers(host.cuda) >= numbers(floor))
    ]


def _with_availability(call: Call) -> bool:
    wanted = "AVAILABILITY" in call.query.get("include", "").split(",")
    if wanted and "product" not in call.query:
        raise Problem.of(400, "include=AVAILABILITY requires product")
    return wanted


def _gpu(call: Call, kind: GpuType, availability: bool) -> dict[str, Any]:
    hosts = [host for host in call.cloud.hosts if host.gpu == kind.id]
    secure = [host.total for host in hosts if host.cloud == "SECURE"]
    community = [host.total for host in hosts if host.cloud == "COMMUNITY"]
    row: dict[str, Any] = {
        "id": kind.id,
        "name": kind.name,
        "pool": kind.pool,
        "manufacturer": "NVIDIA",
        "memory": kind.memory,
        "secure": bool(secure),
        "community": bool(community),
        "price": {"secure": kind.secure, "community": kind.community},
        "maxCount": {"secure": max(secure, default=0), "community": max(community, default=0)},
    }
    if availability:
        row.update(_availability(call, kind))
    return row


def _availability(call: Call, kind: GpuType) -> dict[str, Any]:
    admitted = _hosts(call, kind.id)
    free = {center: sum(host.free for host in admitted if host.data_center == center) for center in CENTERS}
    versions = sorted({host.cuda for host in admitted}, key=numbers, reverse=True)
    return {
        "availability": level(sum(free.values())),
        "dataCenters": [{"id": c, "name": CENTERS[c][0], "availability": level(n)} for c, n in free.items()],
        "cudaVersions": [
            {"version": v, "available": any(host.free for host in admitted if host.cuda == v)} for v in versions
        ],
    }


async def list_gpus(call: Call) -> Answer:
    """GET /v2/catalog/gpus."""
    availability = _with_availability(call)
    return 200, {"gpus": [_gpu(call, kind, availability) for kind in TYPES]}


async def get_gpu(call: Call) -> Answer:
    """GET /v2/catalog/gpus/{id}."""
    for kind in TYPES:
        if kind.id == call.id:
            return 200, _gpu(call, kind, _with_availability(call))
    raise Problem.of(404, f"GPU type {call.id} not found")


def _center(call: Call, center: str) -> dict[str, Any]:
    name, region = CENTERS[center]
    row: dict[str, Any] = {
        "id": center,
        "name": name,
        "region": region,
        "networkVolumeTypes": ["STANDARD"],
        "compliance": [],
        "globalNetwork": False,
    }
    if "GPU_AVAILABILITY" in call.query.get("include", "").split(","):
        free = {k: sum(h.free for h in _hosts(call, k.id) if h.data_center == center) for k in TYPES}
        row["gpuAvailability"] = [{"id": k.id, "name": k.name, "availability": level(n)} for k, n in free.items()]
    return row


async def list_centers(call: Call) -> Answer:
    """GET /v2/catalog/datacenters."""
    regions = [region for region in call.query.get("regions", "").split(",") if region]
    names = [name for name, (_, region) in CENTERS.items() if not regions or region in regions]
    return 200, {"dataCenters": [_center(call, name) for name in names]}


async def get_center(call: Call) -> Answer:
    """GET /v2/catalog/datacenters/{id}."""
    if call.id not in CENTERS:
        raise Problem.of(404, f"data center {call.id} not found")
    return 200, _center(call, call.id)


async def list_billing(call: Call) -> Answer:
    """GET /v2/billing/pods: whole buckets from the simulator's start; empty ones are left out."""
    cloud, query = call.cloud, call.query
    now = cloud.clock.now()
    bucket = query.get("bucketSize", "day")
    width = BUCKETS[bucket]
    if "lastN" in query and "startTime" in query:
        raise Problem.of(400, "lastN and startTime are mutually exclusive")
    begin = max(0.0, cloud.clock.moment(query["startTime"])) if "startTime" in query else 0.0
    if "lastN" in query:
        begin = max(0.0, (now // width - int(query["lastN"]) + 1) * width)
    end = cloud.clock.moment(query["endTime"]) if "endTime" in query else now
    pods = [p for p in cloud.pods.values() if p.account == call.key.account and query.get("podId", p.id) == p.id]
    records: list[dict[str, Any]] = []
    for number in range(int(begin // width), int(min(end, now) // width) + 1):
        since, until = number * width, min((number + 1) * width, now)
        span = {"startTime": cloud.clock.utc(since), "endTime": cloud.clock.utc((number + 1) * width)}
        amounts = [(pod.id, pod.spent(until, since)) for pod in pods]
        records += [{**span, "podId": pod, **_amounts(amount)} for pod, amount in amounts if amount > 0]
    totals = _amounts(sum(record["totalAmount"] for record in records))
    window = {"startTime": cloud.clock.utc(begin), "endTime": cloud.clock.utc(end), "bucketSize": bucket}
    if "podId" in query:
        window["podId"] = query["podId"]
    metadata = {
        "query": window,
        "recordCount": len(records),
        "uniquePodCount": len({record["podId"] for record in records}),
        "totals": totals,
    }
    return 200, {"records": records, "metadata": metadata}


def _amounts(total: float) -> dict[str, float]:
    return {"totalAmount": total, "gpuAmount": total, "cpuAmount": 0.0, "diskAmount": 0.0}
