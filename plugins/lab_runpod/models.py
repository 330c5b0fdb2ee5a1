"""The API's answers as far as lab reads them: tolerant of whatever is added, strict about ids and money."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

PodId = Annotated[str, StringConstraints(strict=True, pattern=re.compile(r"^[A-Za-z0-9_-]{1,64}$"))]
"""It becomes part of an address, so nothing else gets in."""


def _money(value: object) -> float | None:
    """A price that is a price; anything else is no price, which is not the same as a free machine."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None


def _table(value: object) -> object:
    return value if isinstance(value, dict) else {}


Money = Annotated[float | None, BeforeValidator(_money)]


class Answer(BaseModel):
    """What is unknown is ignored: fields and words keep being added to this API."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Gpu(Answer):
    """What a Pod was given."""

    id: str | None = None
    count: int | None = None


class Persistent(Answer):
    """A disk of the Pod's own."""

    size: int
    path: str


class Network(Answer):
    """An attached network volume."""

    volumeId: str  # noqa: N815 - the API's name
    path: str


class Mounts(Answer):
    """At most one of the two."""

    persistent: Persistent | None = None
    network: tuple[Network, ...] | None = None


class Pod(Answer):
    """One Pod."""

    id: PodId
    name: Annotated[str, StringConstraints(strict=True, min_length=1)]
    status: Annotated[str, StringConstraints(strict=True, min_length=1)]
    cost: Money = None
    image: str | None = None
    mounts: Annotated[Mounts, BeforeValidator(_table)] = Mounts()
    env: Annotated[dict[str, Any], BeforeValidator(_table)] = {}
    gpu: Gpu | None = None
    dataCenterId: str | None = None  # noqa: N815 - the API's name
    createdAt: str | None = None  # noqa: N815 - the API's name


class Pagination(Answer):
    """Of the newer listings."""

    nextCursor: str | None = None  # noqa: N815 - the API's name
    hasNextPage: bool | None = None  # noqa: N815 - the API's name


class PodPage(Answer):
    """One page of a listing; a Pod that cannot be read makes the whole page unreadable."""

    pods: tuple[Pod, ...]
    pagination: Pagination | None = None


class Prices(Answer):
    """Per GPU and hour."""

    secure: Money = None
    community: Money = None


class Center(Answer):
    """A data center that offers a GPU."""

    id: str
    availability: str = "NONE"


class GpuType(Answer):
    """One row of the catalogue."""

    id: str
    memory: int = 0
    secure: bool = False
    community: bool = False
    price: Prices = Prices()
    availability: str = "NONE"
    dataCenters: tuple[Center, ...] = ()  # noqa: N815 - the API's name


class GpuPage(Answer):
    """The catalogue."""

    gpus: tuple[GpuType, ...]


class NetworkVolume(Answer):
    """A network volume: attached, never deleted."""

    id: str
    dataCenter: str  # noqa: N815 - the API's name
    size: int | None = None


class Problem(Answer):
    """An error of the API itself (application/problem+json)."""

    title: str = ""
    detail: str = ""
    errors: tuple[str, ...] = Field(default=())

    def __str__(self) -> str:
        said = self.detail or self.title
        return "; ".join([said, *(error for error in self.errors if error not in said)])
