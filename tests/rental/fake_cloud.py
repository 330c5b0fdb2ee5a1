"""A cloud in this process that bills, forgets, lags and fails as ordered, in virtual time; it knows only contracts."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.rental.agent_contract import AgentUnreachable
from lab.rental.provider import (
    Candidate,
    Conflict,
    Machine,
    NoCapacity,
    NoSecondWay,
    NotAuthorized,
    NotFound,
    SelfStop,
    Unreachable,
)
from rental.fake_agent import FakeAgent, JobScript, new_boot_id
from rental.virtual import START, Trace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental.provider import CreateRequest
    from rental.virtual import VirtualClock

HOUR = 3600.0
SAVE_BEFORE_STOP_SECONDS = 120.0


@dataclass
class FakeMachine:
    """One machine: its status is a function of time and of what was asked."""

    cloud: FakeCloud
    id: str
    request: CreateRequest
    created: float
    price: float
    status: str = "starting"
    boot_id: str = ""
    ready_at: float = float("inf")
    gpus: tuple[str, ...] = ("NVIDIA H100",)
    disk: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    contact: float = 0.0
    lease_seconds: float = 900.0
    deadline: float = float("inf")
    billed: float = 0.0
    billing_since: float | None = None
    gone_at: float | None = None
    never_ready: bool = False
    mute: bool = False

    def boot(self, seconds: float) -> None:
        now = self.cloud.clock.seconds
        self.status, self.boot_id = "running", new_boot_id()
        self.memory = {}
        self.ready_at = float("inf") if self.never_ready else now + seconds
        self.contact = now + (0 if self.never_ready else seconds)
        self.billing_since = now if self.billing_since is None else self.billing_since
        self.lease_seconds = float(self.request.environment["LAB_LEASE_SECONDS"])
        self.deadline = now + float(self.request.environment["LAB_LIMIT_SECONDS"])

    @property
    def serving(self) -> bool:
        return self.status == "running" and self.cloud.clock.seconds >= self.ready_at and not self.mute

    @property
    def exists(self) -> bool:
        return self.gone_at is None

    def job_end(self) -> float | None:
        """When the job ends or ended by itself or by a wish; None when it was cut short."""
        job = self.disk.get("job")
        if job is None:
            return None
        natural = job.started + self.cloud.script.seconds
        end = natural if job.stop_at is None else min(natural, job.stop_at)
        return None if job.cut_at is not None else end

    def cut(self, at: float) -> None:
        """What runs ends without having ended."""
        end = self.job_end()
        if end is not None and at < end:
            self.disk["job"].cut_at = at

    def working(self) -> bool:
        end = self.job_end()
        job = self.disk.get("job")
        return job is not None and end is not None and self.cloud.clock.seconds < end and job.boot_id == self.boot_id

    def restart(self) -> None:
        """The container dies and comes again: memory and processes are gone."""
        self.cut(self.cloud.clock.seconds)
        self.boot(20.0)

    def halt(self, at: float | None = None) -> None:
        at = self.cloud.clock.seconds if at is None else at
        if self.billing_since is not None:
            self.billed += max(0.0, at - self.billing_since)
        self.billing_since = None
        self.cut(at)
        self.status, self.ready_at = "stopped", float("inf")

    def vanish(self, at: float | None = None) -> None:
        self.halt(at)
        self.status, self.gone_at = "terminated", self.cloud.clock.seconds if at is None else at

    def tick(self) -> None:
        """The machine's own lease and deadline, as its agent keeps them."""
        if self.status != "running" or self.ready_at == float("inf") or not self.cloud.self_stop_works:
            return
        now, contact = self.cloud.clock.seconds, self.contact
        end = self.job_end()
        if end is not None and now >= end > contact:
            self.lease_seconds, contact = min(self.lease_seconds, 900.0), end
        due = min(contact + self.lease_seconds, self.deadline)
        if now >= due:
            job = self.disk.get("job")
            if job is not None and self.working():
                job.stop_at = min(job.stop_at or due, due)
            self.halt(max(due, self.ready_at if self.ready_at < now else due))

    def spent(self) -> float:
        running = self.cloud.clock.seconds - self.billing_since if self.billing_since is not None else 0.0
        return self.price * (self.billed + running) / HOUR


class FakeCloud:
    """Implements `Provider`. `trace` holds what was asked and the faults to come."""

    name = "fake"
    secret_variables: tuple[str, ...] = ("FAKE_API_KEY",)

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.trace = Trace(clock)
        self.machines: dict[str, FakeMachine] = {}
        self.script = JobScript()
        self.offers = [Candidate("NVIDIA H100", 2.0), Candidate("NVIDIA H100", 2.1, data_center="B")]
        self.price = 2.0
        self.boot_seconds = 60.0
        self.get_lag = 0.0
        self.list_lag = 0.0
        self.linger = 0.0
        """How long a deleted machine is still shown as terminated."""
        self.key = "key-1"
        self.offline = False
        """This laptop has no network: neither the cloud nor any machine is reached."""
        self.self_stop_works = True
        self.no_gpu_on_start = False
        self.second_way = False
        self.never_ready = False
        self.change_created: dict[str, Any] = {}
        self.logs: list[str] = []
        self.strangers: list[Machine] = []
        clock.listeners.append(self.tick)

    def tick(self) -> None:
        for machine in self.machines.values():
            machine.tick()

    # Provider
    def account(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()[:16]

    def candidates(self, needs: Any) -> Sequence[Candidate]:
        return self._ask("candidates", "", lambda: tuple(self.offers))

    def create(self, request: CreateRequest) -> Machine:
        return self._ask("create", request.name, lambda: self.shown(self.make(request)))

    def get(self, machine_id: str) -> Machine:
        return self._ask("get", machine_id, lambda: self._get(machine_id))

    def list_all(self) -> Sequence[Machine]:
        return self._ask("list", "", self._list)

    def stop(self, machine_id: str) -> None:
        self._ask("stop", machine_id, lambda: self._stop(machine_id))

    def start(self, machine_id: str) -> None:
        self._ask("start", machine_id, lambda: self._start(machine_id))

    def delete(self, machine_id: str) -> None:
        self._ask("delete", machine_id, lambda: self._delete(machine_id))

    def system_logs(self, machine_id: str) -> Sequence[str]:
        return self._ask("logs", machine_id, lambda: tuple(self.logs))

    def boot_failure(self, lines: Sequence[str]) -> str | None:
        return next((line for line in lines if "OCI" in line or "toomanyrequests" in line), None)

    def agent_url(self, machine_id: str, port: int) -> str:
        return f"fake://{machine_id}:{port}"

    def console_url(self, machine_id: str) -> str:
        return f"https://console.example/{machine_id}"

    def stopped_dollars_per_hour(self, volume_gb: int) -> float:
        return volume_gb * 0.0003

    def emergency_stop(self, machine_id: str) -> None:
        self.trace.call("emergency_stop", machine_id, lambda: self._second(lambda: self._stop(machine_id)))

    def emergency_delete(self, machine_id: str) -> None:
        self.trace.call("emergency_delete", machine_id, lambda: self._second(lambda: self._delete(machine_id)))

    def self_stop(self) -> Sequence[SelfStop]:
        return (SelfStop(argv=("stop", "{FAKE_POD_ID}")),)

    def _ask(self, operation: str, subject: str, effect: Any) -> Any:
        def reached() -> Any:
            if self.offline:
                raise Unreachable("no route to host")
            return effect()

        return self.trace.call(operation, subject, reached)

    # the world
    def connect(self, url: str, token: str) -> Any:
        return _Routed(self, url.removeprefix("fake://").partition(":")[0], token)

    def make(self, request: CreateRequest) -> FakeMachine:
        machine_id = f"pod{len(self.machines) + 1}"
        machine = FakeMachine(self, machine_id, request, self.clock.seconds, self.price, never_ready=self.never_ready)
        self.machines[machine_id] = machine
        machine.boot(self.boot_seconds)
        return machine

    def shown(self, machine: FakeMachine) -> Machine:
        known: dict[str, Any] = {
            "dollars_per_hour": machine.price,
            "gpu": machine.request.candidate.gpu,
            "gpus": machine.request.candidate.gpus,
            "mount_path": machine.request.mount_path,
        }
        return Machine(
            id=machine.id,
            name=machine.request.name,
            status=machine.status,
            status_text=machine.status.upper(),
            image=machine.request.image,
            volume_gb=machine.request.volume_gb,
            environment=dict(machine.request.environment),
            created=str(START + machine.created),
            **{**known, **self.change_created},
        )

    def living(self) -> list[FakeMachine]:
        """Machines that bill at the full rate."""
        return [machine for machine in self.machines.values() if machine.billing_since is not None]

    def bill(self) -> float:
        return sum(machine.spent() for machine in self.machines.values())

    def _visible(self, machine: FakeMachine, lag: float) -> bool:
        if self.clock.seconds < machine.created + lag:
            return False
        return machine.gone_at is None or self.clock.seconds < machine.gone_at + self.linger

    def _authorized(self) -> bool:
        return self.key.startswith("key-1")

    def _get(self, machine_id: str) -> Machine:
        machine = self._mine(machine_id)
        if not self._visible(machine, self.get_lag):
            raise NotFound("404: pod not found")
        return self.shown(machine)

    def _list(self) -> Sequence[Machine]:
        if not self._authorized():
            return ()
        shown = [self.shown(one) for one in self.machines.values() if self._visible(one, self.list_lag)]
        return (*shown, *self.strangers)

    def _mine(self, machine_id: str) -> FakeMachine:
        machine = self.machines.get(machine_id)
        if machine is None or not self._authorized():
            raise NotFound("404: pod not found")
        return machine

    def _stop(self, machine_id: str) -> None:
        machine = self._mine(machine_id)
        if not machine.exists:
            raise NotFound("404: pod not found")
        if machine.status not in ("running", "starting"):
            raise Conflict("409: not possible now")
        machine.halt()

    def _start(self, machine_id: str) -> None:
        machine = self._mine(machine_id)
        if machine.status != "stopped":
            raise Conflict("409: not possible now")
        if self.no_gpu_on_start:
            raise NoCapacity("400: Failed to resume pod.")
        machine.boot(self.boot_seconds)

    def _delete(self, machine_id: str) -> None:
        machine = self._mine(machine_id)
        if not machine.exists:
            raise NotFound("404: pod not found")
        machine.vanish()

    def _second(self, act: Any) -> None:
        if not self.second_way:
            raise NoSecondWay("not installed")
        act()


class _Routed:
    """The way to a machine's agent by its address: before there is one, nothing answers."""

    def __init__(self, cloud: FakeCloud, machine_id: str, token: str) -> None:
        self._cloud, self._machine_id, self._token = cloud, machine_id, token

    def __getattr__(self, name: str) -> Any:
        machine = self._cloud.machines.get(self._machine_id)
        if machine is None:
            raise AgentUnreachable("HTTP 404, and not in the agent's words")
        return getattr(FakeAgent(machine, self._token), name)


class RevokedKey(NotAuthorized):
    """What a cloud says to a key that was withdrawn."""
