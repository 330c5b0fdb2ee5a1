"""The body of a creation, checked against the service's limits before it is sent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.rental.provider import RequestRejected

if TYPE_CHECKING:
    from lab.rental.provider import CreateRequest

MAX_BODY = 102_400
MAX_VARIABLES = 50


def creation(request: CreateRequest, registry: str | None) -> dict[str, Any]:
    """What POST /v2/pods gets."""
    candidate = request.candidate
    # Without a count the scheduler was seen to match no machine at all, although the document says that it is 1.
    gpu: dict[str, Any] = {"id": candidate.gpu, "count": candidate.gpus}
    if candidate.minimum_cuda is not None:
        gpu["minCudaVersion"] = candidate.minimum_cuda
    body: dict[str, Any] = {
        "name": request.name,
        "image": request.image,
        "args": json.dumps({"entrypoint": list(request.argv[:1]), "cmd": list(request.argv[1:])}),
        "disk": request.disk_gb,
        "env": dict(request.environment),
        "ports": [f"{request.port}/http"],
        "cloud": candidate.cloud or "SECURE",
        "gpu": gpu,
        "mounts": _mounts(request),
    }
    if candidate.data_center is not None:
        body["dataCenterIds"] = [candidate.data_center]
    if registry is not None:
        body["registry"] = registry
    _fits(body)
    return body


def _mounts(request: CreateRequest) -> dict[str, Any]:
    """The disk that survives a stop; without asking for one there is none."""
    if request.network_volume is not None:
        return {"network": [{"volumeId": request.network_volume, "path": request.mount_path}]}
    if request.volume_gb is None:
        raise RequestRejected("neither a volume size nor a network volume was asked for: a stop would keep nothing")
    return {"persistent": {"size": request.volume_gb, "path": request.mount_path}}


def _fits(body: dict[str, Any]) -> None:
    size = len(json.dumps(body).encode())
    if size > MAX_BODY:
        raise RequestRejected(f"the create request has {size} bytes; the service takes {MAX_BODY}")
    if len(body["env"]) > MAX_VARIABLES:
        raise RequestRejected(f"{len(body['env'])} environment variables; the service takes {MAX_VARIABLES}")
