"""Which machines fit an experiment, in the order in which they are tried: cheap first, well stocked first."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lab.errors import did_you_mean
from lab.rental.provider import Candidate, NotFound, RequestRejected
from lab_runpod.models import GpuPage, NetworkVolume

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.jobs import Needs
    from lab_runpod.client import Client
    from lab_runpod.models import GpuType
    from lab_runpod.options import RunPodOptions

STOCK = {"HIGH": 0, "MEDIUM": 1, "LOW": 2}
"""Words for some stock, best first; a new word counts as a little, NONE and silence as none."""
CUDA = re.compile(r"(?:cuda|cu)[-_]?(\d{2})[._]?(\d)", re.IGNORECASE)
DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
SMALLEST_VOLUME_GB = 10


def find(client: Client, needs: Needs, options: RunPodOptions) -> list[Candidate]:
    """Every machine worth asking for. The catalogue is a hint and never a promise, so an empty shelf is tried last."""
    check(needs, options)
    return search(client, needs, options)


def search(client: Client, needs: Needs, options: RunPodOptions) -> list[Candidate]:
    """The same without judging the image."""
    floor = minimum_cuda(needs.image or "", needs.torch_index or "")
    centers = _centers(client, needs, options)
    clouds = ("SECURE",) if needs.network_volume else options.clouds
    found: list[Candidate] = []
    for cloud in clouds:
        query = {"include": "AVAILABILITY", "product": "POD", "count": "1", "cloud": cloud}
        if floor is not None:
            query["minCudaVersion"] = floor
        kinds = client.get("catalog/gpus", GpuPage, query).gpus
        for kind in _wanted(kinds, needs.gpu):
            found.extend(_of_kind(kind, cloud, centers, floor))
    if not found:
        raise RequestRejected(f"{needs.gpu or 'a GPU'} is not offered in {' or '.join(clouds)}")
    return sorted(found, key=_order)


def check(needs: Needs, options: RunPodOptions) -> None:
    """Refuse what the cloud would refuse later, or what would make a run depend on the day."""
    if not needs.image:
        raise RequestRejected("environment.image is missing: a rented machine starts from an image")
    if not DIGEST.search(needs.image):
        raise RequestRejected(
            f"environment.image = {needs.image!r} has no digest, so what runs would depend on the day: "
            "pin it as name:tag@sha256:..."
        )
    if needs.network_volume and "SECURE" not in options.clouds:
        raise RequestRejected("environment.network_volume exists only in the SECURE cloud")
    if needs.volume_gb is not None and needs.volume_gb < SMALLEST_VOLUME_GB:
        raise RequestRejected(
            f"environment.volume_gb = {needs.volume_gb}: the smallest disk is {SMALLEST_VOLUME_GB} GB"
        )


def minimum_cuda(*texts: str) -> str | None:
    """The newest CUDA version that an image's name or a wheel index speaks of: an older driver never starts it."""
    spoken = [(int(m[1]), int(m[2])) for text in texts for m in CUDA.finditer(text.partition("@")[0])]
    return "{}.{}".format(*max(spoken)) if spoken else None


def _centers(client: Client, needs: Needs, options: RunPodOptions) -> tuple[str, ...]:
    """The data centers that come into question; a network volume leaves only its own."""
    if needs.network_volume is None:
        return options.data_centers
    try:
        volume = client.get(f"network-volumes/{needs.network_volume}", NetworkVolume)
    except NotFound as error:
        raise RequestRejected(
            f"environment.network_volume = {needs.network_volume!r}: this account has no such volume", error.request_id
        ) from error
    if options.data_centers and volume.dataCenter not in options.data_centers:
        raise RequestRejected(f"the network volume is in {volume.dataCenter}, which data_centers leaves out")
    return (volume.dataCenter,)


def _wanted(kinds: Sequence[GpuType], gpu: str | None) -> list[GpuType]:
    if gpu is None:
        return list(kinds)
    wanted = [kind for kind in kinds if kind.id == gpu]
    if not wanted:
        raise RequestRejected(
            f"environment.gpu = {gpu!r} is no GPU of this cloud. {did_you_mean(gpu, (kind.id for kind in kinds))}"
        )
    return wanted


def _of_kind(kind: GpuType, cloud: str, centers: tuple[str, ...], floor: str | None) -> Iterator[Candidate]:
    """One candidate for each stocked data center, and one that leaves the choice to the cloud."""
    offered, price = (kind.secure, kind.price.secure) if cloud == "SECURE" else (kind.community, kind.price.community)
    if not offered or price is None:
        return
    stock = {center.id: center.availability for center in kind.dataCenters if center.availability != "NONE"}
    for center in centers or stock:
        yield Candidate(kind.id, price, 1, cloud, center, stock.get(center, "NONE"), floor)
    if not centers:
        yield Candidate(kind.id, price, 1, cloud, None, kind.availability, floor)


def _order(candidate: Candidate) -> tuple[bool, float, int, bool]:
    """Empty shelves last; then the price, the stock, and a known place before an unknown one."""
    empty = candidate.availability == "NONE"
    return (empty, candidate.dollars_per_hour, STOCK.get(candidate.availability, 2), candidate.data_center is None)
