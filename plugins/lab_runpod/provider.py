"""RunPod as `lab.rental` sees any cloud: a call asks once, and every answer becomes a value or an error."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from lab.rental.provider import (
    Conflict,
    Machine,
    NoCapacity,
    NotFound,
    RequestRejected,
    SelfStop,
    Unreachable,
)
from lab_runpod import boot, candidates, emergency, requests
from lab_runpod.client import USER_AGENT, Client, read
from lab_runpod.models import Pod, PodPage
from lab_runpod.options import RunPodOptions
from lab_runpod.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lab.jobs import Needs
    from lab.rental.provider import Candidate, CheckResult, CreateRequest, ProviderError, Status
    from lab_runpod.settings import RunPodSettings

STATUSES: dict[str, Status] = {
    "PROVISIONING": "starting",
    "STARTING": "starting",
    "RUNNING": "running",
    "EXITED": "stopped",
    "ERROR": "failed",
    "TERMINATED": "terminated",
}
STOPPED_DOLLARS_PER_GB_MONTH = 0.20
HOURS_PER_MONTH = 730.0
MAX_PAGES = 1000
LOG_LINES = "200"
POD_STOP = 'mutation { podStop(input: {podId: "{RUNPOD_POD_ID}"}) { id desiredStatus } }'


class RunPodProvider:
    """REST v2, and nothing else unless that has failed."""

    name = "runpod"
    secret_variables: tuple[str, ...] = ("RUNPOD_API_KEY", "RUNPOD_AI_API_KEY", "JUPYTER_PASSWORD")

    def __init__(
        self,
        options: RunPodOptions | None = None,
        settings: RunPodSettings | None = None,
        client: Client | None = None,
    ) -> None:
        self.options = options or RunPodOptions()
        self.settings = settings or read_settings()
        self.client = client or Client(self.settings)

    def account(self) -> str:
        """A fingerprint of the key. Raises `NotAuthorized` when there is none."""
        return self.client.account()

    def candidates(self, needs: Needs) -> Sequence[Candidate]:
        """Machines that fit, in the order in which they should be tried."""
        return candidates.find(self.client, needs, self.options)

    def create(self, request: CreateRequest) -> Machine:
        """Ask for one machine, once."""
        body = requests.creation(request, self.options.registry)
        try:
            response = self.client.post("pods", body, NoCapacity, self.settings.create_seconds)
        except NotFound as error:
            raise RequestRejected(error.message, error.request_id) from error
        return machine(read(response, Pod))

    def get(self, machine_id: str) -> Machine:
        """Describe one machine. Raises `NotFound`."""
        pod = self.client.get(f"pods/{machine_id}", Pod)
        if pod.id != machine_id:
            raise Unreachable(f"asked for Pod {machine_id}, was told about {pod.id}")
        return machine(pod)

    def list_all(self) -> Sequence[Machine]:
        """Every Pod of the account: each page, or an error."""
        found: dict[str, Machine] = {}
        cursor, seen = None, set()
        for _ in range(MAX_PAGES):
            page = self.client.get("pods", PodPage, {"cursor": cursor} if cursor else None)
            found.update({pod.id: machine(pod) for pod in page.pods})
            more = page.pagination
            if more is None or (not more.hasNextPage and not more.nextCursor) or more.hasNextPage is False:
                return tuple(found.values())
            cursor = more.nextCursor
            if not cursor or cursor in seen:
                raise Unreachable("the listing says that there is more and does not say where: it is incomplete")
            seen.add(cursor)
        raise Unreachable(f"the listing has more than {MAX_PAGES} pages: it is incomplete")

    def stop(self, machine_id: str) -> None:
        """Ask to stop it and keep its disk."""
        self._act(machine_id, "stop", Conflict)

    def start(self, machine_id: str) -> None:
        """Ask to start a stopped machine. Raises `NoCapacity` when its host has no GPU free."""
        self._act(machine_id, "start", NoCapacity)

    def delete(self, machine_id: str) -> None:
        """Ask to delete it with its own disk; a network volume stays."""
        self.client.delete(f"pods/{machine_id}")

    def system_logs(self, machine_id: str) -> Sequence[str]:
        """The last lines that the host wrote about the machine."""
        return self.client.lines(f"pods/{machine_id}/logs", {"source": "system", "tail": LOG_LINES})

    def boot_failure(self, lines: Sequence[str]) -> str | None:
        """Why the machine can never start; None while it still may."""
        return boot.failure(lines)

    def agent_url(self, machine_id: str, port: int) -> str:
        """The proxy's address of a port."""
        return self.settings.proxy_url.replace("{pod_id}", machine_id).replace("{port}", str(port))

    def console_url(self, machine_id: str) -> str:
        """The page on which a person sees the Pod."""
        return self.settings.console_url.replace("{pod_id}", machine_id)

    def stopped_dollars_per_hour(self, volume_gb: int) -> float:
        """What the disk of a stopped Pod costs: double of a running one's."""
        return volume_gb * STOPPED_DOLLARS_PER_GB_MONTH / HOURS_PER_MONTH

    def emergency_stop(self, machine_id: str) -> None:
        """Stop by the official package."""
        emergency.stop(self.settings, machine_id)

    def emergency_delete(self, machine_id: str) -> None:
        """Delete by the official package."""
        emergency.terminate(self.settings, machine_id)

    def self_stop(self) -> Sequence[SelfStop]:
        """By the key that RunPod puts into each Pod; reports differ on which way it may go, so there are three."""
        headers = {
            "Authorization": "Bearer {RUNPOD_API_KEY}",
            "Content-Type": "application/json",
            "User-Agent": USER_AGENT,
        }
        action = f"{self.settings.api_url}/pods/{{RUNPOD_POD_ID}}/action"
        return (
            SelfStop(url=action, headers=headers, body='{"action":"stop"}'),
            SelfStop(argv=("runpodctl", "stop", "pod", "{RUNPOD_POD_ID}")),
            SelfStop(url=self.settings.graphql_url, headers=headers, body=json.dumps({"query": POD_STOP})),
        )

    def live_check(self, folder: Path, say: Callable[[str], None]) -> Sequence[CheckResult]:
        """Try the real service for a few cents."""
        from lab_runpod.doctor import Doctor

        connected = partial(RunPodProvider, self.options, self.settings)
        return Doctor(connected, self.settings, self.options, folder, say).run()

    def _act(self, machine_id: str, action: str, bad_request: type[ProviderError]) -> None:
        self.client.post(f"pods/{machine_id}/action", {"action": action}, bad_request)


def machine(pod: Pod) -> Machine:
    """A Pod in the words of `lab.rental`; what the answer does not say stays None."""
    persistent, network = pod.mounts.persistent, pod.mounts.network
    mount = persistent or (network[0] if network else None)
    return Machine(
        id=pod.id,
        name=pod.name,
        status=STATUSES.get(pod.status, "unknown"),
        status_text=pod.status,
        dollars_per_hour=pod.cost,
        gpu=pod.gpu.id if pod.gpu else None,
        gpus=pod.gpu.count if pod.gpu else None,
        image=pod.image,
        mount_path=mount.path if mount else None,
        volume_gb=persistent.size if persistent else None,
        network_volume=network[0].volumeId if network else None,
        environment={str(name): str(value) for name, value in pod.env.items()},
        data_center=pod.dataCenterId,
        created=pod.createdAt,
    )
