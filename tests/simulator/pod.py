"""One Pod: what was asked for, where it stands, what it costs, and how the API shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from .container import Container
    from .hosts import GpuType, Host
    from .scenario import Scenario

ACTIONS = {
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
    "RUNNING": ["stop", "restart", "terminate"],
    "EXITED": ["start", "terminate"],
    "ERROR": ["start", "terminate"],
    "TERMINATED": [],
}
HOURS_A_MONTH = 730.0


@dataclass(frozen=True)
class LogLine:
    """One line of the log stream; its time is its id."""

    moment: float
    source: str
    text: str


@dataclass
class Pod:
    """A Pod, from its creation to its last appearance in a listing."""

    id: str
    account: str
    key: str
    request: dict[str, Any]
    host: Host
    gpu: GpuType
    scenario: Scenario
    created: float
    folder: Path
    volume_folder: Path | None = None
    network_volume: bool = False
    ports: dict[int, int] = field(default_factory=dict)
    """The declared port inside the Pod to the real one on this machine."""
    status: str = "PROVISIONING"
    starts: int = 0
    boots: int = 0
    gpus_seen: int = 1
    held: bool = True
    """Its GPUs are taken from its host."""
    started: float | None = None
    """When its container last started."""
    routed: float | None = None
    """When the proxy's route to it was registered."""
    terminated: float | None = None
    hidden_until: float = 0.0
    locked: bool = False
    log: list[LogLine] = field(default_factory=list)
    rates: list[tuple[float, float]] = field(default_factory=list)
    """When each rate per hour began."""
    remembered: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """The proxy's last answers of an earlier boot, for a stale route."""
    container: Container | None = None
    life: asyncio.Task[None] | None = None

    @property
    def gpu_count(self) -> int:
        """How many were asked for."""
        return int(self.request["gpu"]["count"])

    @property
    def mount_path(self) -> str | None:
        """Where the disk that survives a stop is mounted."""
        mounts = self.request.get("mounts") or {}
        entry = mounts.get("persistent") or (mounts.get("network") or [None])[0]
        return str(entry["path"]) if entry else None

    @property
    def volume_gb(self) -> int:
        """The size of its own volume."""
        return int(((self.request.get("mounts") or {}).get("persistent") or {}).get("size", 0))

    @property
    def alive(self) -> bool:
        """It exists and costs something."""
        return self.terminated is None

    def say(self, moment: float, source: str, text: str) -> None:
        """Add a log line; no two have the same time."""
        if self.log and moment <= self.log[-1].moment:
            moment = self.log[-1].moment + 1e-6
        self.log.append(LogLine(moment, source, text))

    def hourly(self) -> float:
        """The present rate: GPUs while it is on, the disk at double its price while it is stopped."""
        if not self.alive:
            return 0.0
        disk = int(self.request.get("disk", 10))
        if self.status in ("EXITED", "ERROR"):
            return round(0.20 * self.volume_gb / HOURS_A_MONTH, 6)
        list_price = self.gpu.secure if self.host.cloud == "SECURE" else self.gpu.community
        price = list_price * self.gpu_count if self.scenario.cost is None else self.scenario.cost
        return round(price + 0.10 * (disk + self.volume_gb) / HOURS_A_MONTH, 6)

    def rate_changed(self, moment: float) -> None:
        """Note the rate that holds from now on."""
        self.rates.append((moment, self.hourly()))

    def spent(self, until: float, since: float = 0.0) -> float:
        """Dollars between two moments."""
        total = 0.0
        ends = [begin for begin, _ in self.rates[1:]] + [until]
        for (begin, rate), end in zip(self.rates, ends, strict=True):
            total += max(0.0, min(end, until) - max(begin, since)) * rate / 3600
        return total


def shown(pod: Pod, now: float, utc: Any) -> dict[str, Any]:
    """The Pod as the API describes it."""
    request = pod.request
    running = pod.status == "RUNNING" and pod.started is not None
    return {
        "id": pod.id,
        "name": request["name"],
        "status": pod.status,
        "actions": ACTIONS[pod.status],
        "image": request["image"],
        "args": request.get("args", ""),
        "disk": request.get("disk", 10),
        "mounts": {} if pod.scenario.drop_mounts else request.get("mounts", {}),
        "ports": request.get("ports", []),
        "env": request.get("env", {}),
        "registry": request.get("registry"),
        "cloud": pod.host.cloud,
        "dataCenterId": pod.host.data_center,
        "cudaVersion": pod.host.cuda,
        "ssh": {"proxy": None, "direct": None},
        "template": None,
        "cost": pod.hourly(),
        "locked": pod.locked,
        "runtime": _runtime(pod, now) if running else None,
        "createdAt": utc(pod.created),
        "startedAt": utc(pod.started) if pod.started is not None else None,
        "globalNetworking": {"enabled": False},
        "gpu": {"id": pod.gpu.id, "count": pod.gpu_count},
    }


def _runtime(pod: Pod, now: float) -> dict[str, Any]:
    ports = [{"private": inside, "public": None, "type": "http", "ip": None} for inside in pod.ports]
    return {
        "uptime": int(now - (pod.started or now)),
        "gpus": [{"util": 0, "memoryUtil": 0} for _ in range(pod.gpus_seen)],
        "cpu": {"util": 3},
        "memory": {"util": 2},
        "ports": ports,
    }
