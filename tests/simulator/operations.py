"""What each operation of the API does, by its operationId."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import catalog
from .hosts import CENTERS
from .pod import Pod, shown
from .problems import Problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from .cloud import Cloud, Key

MAX_VARIABLES = 50


@dataclass(frozen=True)
class Call:
    """One admitted request."""

    cloud: Cloud
    key: Key
    id: str
    query: Mapping[str, str]
    body: Any


Answer = tuple[int, Any]


def view(call: Call, pod: Pod) -> dict[str, Any]:
    """The Pod as this caller sees it."""
    return shown(pod, call.cloud.clock.now(), call.cloud.clock.utc)


def find(call: Call, acting: bool = False) -> Pod:
    """The Pod of the path, if this key reaches it."""
    pod = call.cloud.pods.get(call.id)
    if pod is None or not call.cloud.seen(pod, call.key.account, listing=False):
        raise Problem.of(404, f"pod {call.id} not found")
    if call.key.pod is not None and (call.key.pod != pod.id or call.cloud.pod_keys != "allowed"):
        raise Problem.of(403, "this key does not reach the pod")
    if acting:
        writer(call)
    return pod


def writer(call: Call) -> None:
    """Refuse a key that may only read."""
    if not call.key.writes:
        raise Problem.of(403, "the key lacks the scope for this")


async def create_pod(call: Call) -> Answer:
    """POST /v2/pods."""
    writer(call)
    if call.key.pod is not None:
        raise Problem.of(403, "a pod's key creates no pods")
    _rules(call, call.body)
    if call.cloud.balance - call.cloud.spent() <= 0:
        raise Problem.of(402, "insufficient balance: at least one hour of credit is needed")
    return 201, view(call, call.cloud.create(call.key.account, call.body))


def _rules(call: Call, body: dict[str, Any]) -> None:
    """What the schema cannot say. A missing gpu.count finds no machine, as measured; the document says it is 1."""
    mounts = body.get("mounts") or {}
    if ("gpu" in body) == ("cpu" in body):
        raise Problem.of(400, "exactly one of gpu or cpu must be set")
    if "cpu" in body:
        raise Problem.of(400, "no machine has CPUs to rent here")
    if "persistent" in mounts and mounts.get("network"):
        raise Problem.of(400, "mounts.persistent and mounts.network are mutually exclusive")
    if body["gpu"].get("minCudaVersion") and body["gpu"].get("allowedCudaVersions"):
        raise Problem.of(400, "minCudaVersion and allowedCudaVersions are mutually exclusive")
    if len(body.get("env", {})) > MAX_VARIABLES:
        raise Problem.of(400, f"at most {MAX_VARIABLES} environment variables")
    if body["gpu"]["id"] not in {kind.id for kind in catalog.TYPES}:
        raise Problem.of(422, f"$.gpu.id: unknown GPU type {body['gpu']['id']}")
    for mount in mounts.get("network") or []:
        _volume_rules(call, body, mount["volumeId"])


def _volume_rules(call: Call, body: dict[str, Any], volume: str) -> None:
    if volume not in call.cloud.volumes:
        raise Problem.of(400, f"network volume {volume} not found")
    if body.get("cloud", "SECURE") != "SECURE":
        raise Problem.of(400, "network volumes need the secure cloud")
    center = call.cloud.volumes[volume]["dataCenter"]
    if body.setdefault("dataCenterIds", [center]) != [center]:
        raise Problem.of(400, f"network volume {volume} is in {center}")


async def list_pods(call: Call) -> Answer:
    """GET /v2/pods; pages of the newer kind, by a cursor."""
    cloud = call.cloud
    if call.key.pod is not None:
        raise Problem.of(403, "a pod's key lists no pods")
    pods = [pod for pod in cloud.pods.values() if cloud.seen(pod, call.key.account, listing=True)]
    begin = int(call.query.get("cursor", "0").removeprefix("c") or 0)
    end = begin + cloud.page_size
    body: dict[str, Any] = {"pods": [view(call, pod) for pod in pods[begin:end]]}
    more = end < len(pods)
    body["pagination"] = {"hasNextPage": more, "nextCursor": f"c{end}" if more else None}
    return 200, body


async def get_pod(call: Call) -> Answer:
    """GET /v2/pods/{id}."""
    return 200, view(call, find(call))


async def update_pod(call: Call) -> Answer:
    """PATCH /v2/pods/{id}: name and lock; the rest would reset a running Pod and is refused here."""
    pod = find(call, acting=True)
    if set(call.body) - {"name", "locked"}:
        raise Problem.of(400, "this simulator changes only name and locked")
    pod.locked = call.body.get("locked", pod.locked)
    pod.request["name"] = call.body.get("name", pod.request["name"])
    return 200, view(call, pod)


async def delete_pod(call: Call) -> Answer:
    """DELETE /v2/pods/{id}."""
    await call.cloud.life.terminate(find(call, acting=True))
    return 204, None


async def pod_action(call: Call) -> Answer:
    """POST /v2/pods/{id}/action."""
    pod = find(call, acting=True)
    await call.cloud.act(pod, call.body["action"])
    return (204, None) if call.body["action"] == "terminate" else (200, view(call, pod))


async def list_volumes(call: Call) -> Answer:
    """GET /v2/network-volumes."""
    return 200, {"networkVolumes": list(call.cloud.volumes.values())}


async def create_volume(call: Call) -> Answer:
    """POST /v2/network-volumes."""
    writer(call)
    if call.body["dataCenter"] not in CENTERS:
        raise Problem.of(400, f"unknown data center {call.body['dataCenter']}")
    volume = {"id": secrets.token_hex(5), "type": "STANDARD", **call.body}
    call.cloud.volumes[volume["id"]] = volume
    return 201, volume


def _volume(call: Call) -> dict[str, Any]:
    if call.id not in call.cloud.volumes:
        raise Problem.of(404, f"network volume {call.id} not found")
    return call.cloud.volumes[call.id]


async def get_volume(call: Call) -> Answer:
    """GET /v2/network-volumes/{id}."""
    return 200, _volume(call)


async def update_volume(call: Call) -> Answer:
    """PATCH /v2/network-volumes/{id}."""
    writer(call)
    volume = _volume(call)
    if call.body.get("size", volume["size"]) < volume["size"]:
        raise Problem.of(400, "size cannot be reduced")
    volume.update(call.body)
    return 200, volume


async def delete_volume(call: Call) -> Answer:
    """DELETE /v2/network-volumes/{id}; deletes one in use too, as the service does."""
    writer(call)
    del call.cloud.volumes[_volume(call)["id"]]
    return 204, None


async def list_registries(call: Call) -> Answer:
    """GET /v2/registries."""
    return 200, {"registries": []}


OPERATIONS: dict[str, Callable[[Call], Awaitable[Answer]]] = {
    "createPod": create_pod,
    "listPods": list_pods,
    "getPod": get_pod,
    "updatePod": update_pod,
    "deletePod": delete_pod,
    "podAction": pod_action,
    "listNetworkVolumes": list_volumes,
    "createNetworkVolume": create_volume,
    "getNetworkVolume": get_volume,
    "updateNetworkVolume": update_volume,
    "deleteNetworkVolume": delete_volume,
    "listRegistries": list_registries,
    "listGpuTypes": catalog.list_gpus,
    "getGpuType": catalog.get_gpu,
    "listDataCenters": catalog.list_centers,
    "getDataCenter": catalog.get_center,
    "listPodBilling": catalog.list_billing,
}
