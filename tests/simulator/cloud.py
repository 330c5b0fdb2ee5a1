"""The cloud's state and its rules: accounts, capacity, who sees what, and the money."""

from __future__ import annotations

import asyncio
import random
import secrets
import socket
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .hosts import TYPES, GpuType, Host, numbers, usual
from .life import Life
from .pod import ACTIONS, Pod
from .problems import Problem
from .scenario import Scenario
from .trace import Event, Trace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .clock import Clock

NO_INSTANCES = (
    "There are no longer any instances available with the requested specifications. Please refresh and try again."
)


@dataclass
class Key:
    """An API key: whose, and what it may do. A Pod's own key reaches only that Pod."""

    account: str
    pod: str | None = None
    writes: bool = True


@dataclass
class Cloud:
    """One simulated provider."""

    folder: Path
    clock: Clock
    trace: Trace
    packages: Path | None = None
    """A folder of packages that every image's Python has."""
    api_url: str = ""
    hosts: list[Host] = field(default_factory=usual)
    usual: Scenario = field(default_factory=Scenario)
    queue: list[Scenario] = field(default_factory=list)
    """What awaits the next Pods."""
    keys: dict[str, Key] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    volumes: dict[str, dict[str, Any]] = field(default_factory=dict)
    balance: float = 100.0
    pod_keys: str = "allowed"
    """Whether a Pod's own key may act on it: "allowed" or "forbidden"."""
    furnish: Callable[[Pod], None] = lambda pod: None
    """Puts something on a Pod's own new volume, for a test that does not want to wait for it to come there."""
    largest_file: int | None = None
    """Stands for a quota: a container's write beyond so many bytes of one file fails."""
    page_size: int = 100
    grace: float = 10.0
    """Real seconds between a container's SIGTERM and its SIGKILL."""

    def __post_init__(self) -> None:
        self.life = Life(self)

    def place(self, request: dict[str, Any]) -> Host:
        """A host with room for the request. Raises the 400 that stands for anything that has none."""
        gpu = request["gpu"]
        fits = [host for host in self.hosts if self._fits(host, request, gpu) and host.free >= gpu.get("count", 0) > 0]
        if not fits:
            raise Problem(400, "Bad Request", NO_INSTANCES)
        return fits[0]

    def _fits(self, host: Host, request: dict[str, Any], gpu: dict[str, Any]) -> bool:
        centers = request.get("dataCenterIds") or [host.data_center]
        floor, exact = gpu.get("minCudaVersion"), gpu.get("allowedCudaVersions") or [host.cuda]
        return (
            host.gpu == gpu["id"]
            and host.cloud == request.get("cloud", "SECURE")
            and host.data_center in centers
            and host.cuda in exact
            and (floor is None or numbers(host.cuda) >= numbers(floor))
        )

    def create(self, account: str, request: dict[str, Any]) -> Pod:
        """Place a Pod and let its life begin."""
        host = self.place(request)
        host.free -= request["gpu"]["count"]
        identity = "".join(random.SystemRandom().choices("abcdefghijklmnopqrstuvwxyz0123456789", k=14))
        scenario = replace(self.queue.pop(0) if self.queue else self.usual)
        pod = Pod(
            id=identity,
            account=account,
            key=f"rpa_pod_{secrets.token_hex(12)}",
            request=request,
            host=host,
            gpu=gpu_type(host.gpu),
            scenario=scenario,
            created=self.clock.now(),
            folder=self.folder / "pods" / identity,
            gpus_seen=request["gpu"]["count"] if scenario.gpus is None else scenario.gpus,
        )
        self._mount(pod)
        for port in request.get("ports", []):
            number, _, protocol = port.partition("/")
            if protocol == "http":
                pod.ports[int(number)] = free_port()
        pod.folder.mkdir(parents=True)
        if pod.volume_folder is not None:
            pod.volume_folder.mkdir(parents=True, exist_ok=True)
            self.furnish(pod)
        self.pods[identity] = pod
        self.keys[pod.key] = Key(account, pod=identity)
        pod.rate_changed(pod.created)
        self.note(pod, "created")
        self.life.begin(pod)
        return pod

    def _mount(self, pod: Pod) -> None:
        mounts = {} if pod.scenario.drop_mounts else pod.request.get("mounts") or {}
        if mounts.get("persistent"):
            pod.volume_folder = pod.folder / "volume"
        elif mounts.get("network"):
            pod.volume_folder = self.folder / "network" / mounts["network"][0]["volumeId"]
            pod.network_volume = True

    async def act(self, pod: Pod, action: str) -> None:
        """One of the four actions, if its status allows it."""
        if action not in ACTIONS[pod.status]:
            raise Problem(409, "Conflict", f"cannot {action} a pod that is {pod.status}")
        await getattr(self.life, action)(pod)

    def seen(self, pod: Pod, account: str, listing: bool) -> bool:
        """Whether a GET (404 otherwise) or a listing shows it."""
        now = self.clock.now()
        lag = pod.scenario.list_lag if listing else pod.scenario.get_lag
        if pod.account != account or now < pod.created + lag or now < pod.hidden_until:
            return False
        return pod.terminated is None or (listing and now < pod.terminated + pod.scenario.linger)

    def spent(self) -> float:
        """Dollars so far, over all Pods."""
        return sum(pod.spent(self.clock.now()) for pod in self.pods.values())

    async def watch_balance(self) -> None:
        """At zero, every Pod without a network volume is deleted with its data; the others are stopped."""
        while True:
            if self.spent() >= self.balance:
                for pod in [pod for pod in self.pods.values() if pod.alive and pod.status != "EXITED"]:
                    await (self.life.halt(pod, "EXITED") if pod.network_volume else self.life.terminate(pod))
            await asyncio.sleep(0.05)

    def note(self, pod: Pod, what: str) -> None:
        """Add to the trace."""
        self.trace.events.append(Event(self.clock.now(), pod.id, what))

    def close(self) -> None:
        """End every container; returns when nothing of them is alive."""
        self.life.close()
        containers = [pod.container for pod in self.pods.values() if pod.container is not None]
        for container in containers:
            container.cut()
        for container in containers:
            container.end()


def gpu_type(identity: str) -> GpuType:
    """The catalogue's row of a GPU."""
    return next(kind for kind in TYPES if kind.id == identity)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
