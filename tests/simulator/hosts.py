"""The machines of the cloud: which GPUs stand where, what they cost, and how many are free."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuType:
    """One row of the catalogue."""

    id: str
    name: str
    memory: int
    secure: float
    community: float
    pool: str | None = None


@dataclass
class Host:
    """One machine; a stopped Pod stays bound to it and may find its GPUs gone."""

    id: str
    gpu: str
    data_center: str
    cloud: str
    total: int
    cuda: str
    free: int


TYPES = (
    GpuType("NVIDIA H100 80GB HBM3", "H100 SXM", 80, 2.99, 2.69, "HOPPER_80"),
    GpuType("NVIDIA H100 PCIe", "H100 PCIe", 80, 2.39, 1.99, "HOPPER_80"),
    GpuType("NVIDIA A100-SXM4-80GB", "A100 SXM", 80, 1.74, 1.39, "AMPERE_80"),
    GpuType("NVIDIA GeForce RTX 4090", "RTX 4090", 24, 0.69, 0.34, "ADA_24"),
    GpuType("NVIDIA RTX A4000", "RTX A4000", 16, 0.25, 0.17, "AMPERE_16"),
)
CENTERS = {
    "EU-RO-1": ("Romania", "EUROPE"),
    "US-KS-2": ("Kansas", "NORTH_AMERICA"),
    "CA-MTL-1": ("Montreal", "NORTH_AMERICA"),
}


def usual() -> list[Host]:
    """A cloud with something of everything: two GPUs of each type on each of several machines."""
    hosts = []
    for center in CENTERS:
        for number, kind in enumerate(TYPES):
            for cloud in ("SECURE", "COMMUNITY"):
                for cuda in ("12.4", "12.8"):
                    name = f"{center}-{number}-{cloud[0].lower()}-{cuda}"
                    hosts.append(Host(name, kind.id, center, cloud, 2, cuda, 2))
    return hosts


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers, because 12.11 is above 12.2."""
    return tuple(int(part) for part in version.split("."))


def level(free: int) -> str:
    """The catalogue's word for so many free GPUs."""
    return "NONE" if free == 0 else "LOW" if free <= 1 else "MEDIUM" if free <= 4 else "HIGH"
