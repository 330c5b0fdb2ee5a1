"""The first live check: one cheap Pod for a few minutes, measured where documents and reports disagree, then deleted.

`lab doctor --backend runpod` runs it. Whatever happens, the Pod is deleted at the end, and its absence is checked.
"""

from __future__ import annotations

import inspect
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING

import httpx

from lab.errors import StillBilling
from lab.jobs import Needs
from lab.rental import naming
from lab.rental.clock import SystemClock
from lab.rental.provider import CreateRequest, Forbidden, NoCapacity, NotFound, ProviderError, UncertainOutcome
from lab.runs.records import write_json
from lab_runpod import candidates, measurements, probe
from lab_runpod.answers import Answers
from lab_runpod.client import USER_AGENT, Client
from lab_runpod.visit import PORT, Visit

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lab.rental.clock import Clock
    from lab.rental.provider import Candidate, CheckResult, Machine, Provider
    from lab_runpod.options import RunPodOptions
    from lab_runpod.settings import RunPodSettings

IMAGE = "runpod/pytorch:1.0.2-cu1281-torch280-ubuntu2404"
"""On most hosts already; a Pod that measures the service needs nothing pinned."""
MAX_DOLLARS = 0.10
MAX_SECONDS = 900.0
UPLOADS = tuple(size * measurements.MEBIBYTE for size in (32, 64, 110))


class Doctor:
    """Measures, step by step; one that fails does not keep the Pod from being deleted."""

    def __init__(
        self,
        connected: Callable[[Client], Provider],
        settings: RunPodSettings,
        options: RunPodOptions,
        folder: Path,
        say: Callable[[str], None],
        clock: Clock | None = None,
        uploads: tuple[int, ...] = (),
    ) -> None:
        self.clock, self.folder, self.uploads = clock or SystemClock(), folder, uploads or UPLOADS
        self.settings, self.options = settings, options
        self.answers = Answers(folder / "answers", settings.api_key.get_secret_value())
        self.client = Client(settings, attempts=5, sleep=self.clock.sleep, heard=self.answers.keep)
        self.provider = connected(self.client)
        self.visit = Visit(self.provider, self.clock, say)

    def run(self) -> Sequence[CheckResult]:
        """Do everything; the results are also in `doctor.json` below the folder."""
        try:
            self.account()
            if not any(self.measure(candidate) for candidate in self.affordable()):
                self.visit.note("a machine was placed", False, "no candidate could be had: try again later")
        except ProviderError as error:
            self.visit.note("reached the end", False, f"{type(error).__name__}: {error}")
        finally:
            self.client.close()
            checks = [asdict(result) for result in self.visit.results]
            write_json(self.folder / "doctor.json", {"schema": 1, "checks": checks})
        return self.visit.results

    def account(self) -> None:
        """The key, the listing's shape, and whether the old version is really gone."""
        before = self.provider.list_all()
        self.visit.note("the key may list Pods", True, f"{len(before)} Pods exist")
        with httpx.Client(headers={"User-Agent": USER_AGENT}, timeout=30) as http:
            try:
                status = http.get(self.settings.v1_url + "/pods").status_code
            except httpx.HTTPError as error:
                self.visit.note("REST v1 answers 410", False, f"{type(error).__name__}: {error}")
            else:
                self.visit.note("REST v1 answers 410", status == 410, f"it answers {status}")

    def affordable(self) -> list[Candidate]:
        """The cheapest machines, as far as a whole visit fits into the limit."""
        needs = Needs(image=IMAGE, disk_gb=30, volume_gb=candidates.SMALLEST_VOLUME_GB)
        found = candidates.search(self.client, needs, self.options)
        fit = [one for one in found if one.dollars_per_hour * MAX_SECONDS / 3600 <= MAX_DOLLARS]
        cheapest = min(one.dollars_per_hour for one in found)
        self.visit.note("a cheap machine is offered", bool(fit), f"{len(fit)} of {len(found)}, from ${cheapest}/h")
        return fit

    def measure(self, candidate: Candidate) -> bool:
        """Create, measure, delete whatever the measuring came to; False when there was no such machine."""
        request = self.request(candidate)
        write_json(self.folder / "pod.json", {"schema": 1, "name": request.name})
        pod_id = ""
        try:
            self.visit.until = self.clock.monotonic() + MAX_SECONDS
            pod_id = self.create(request)
            write_json(self.folder / "pod.json", {"schema": 1, "name": request.name, "id": pod_id})
            self.look(pod_id)
        except (NoCapacity, Forbidden) as error:
            self.visit.say(f"{candidate.gpu} in {candidate.data_center}: {error}")
            return False
        except (ProviderError, httpx.HTTPError) as error:
            self.visit.note("measured everything", False, f"{type(error).__name__}: {error}")
        finally:
            self.end(request.name, pod_id)
        return True

    def look(self, pod_id: str) -> None:
        """Everything that is measured on a living Pod."""
        measurements.visible(self.visit, pod_id)
        boot = measurements.ready(self.visit, pod_id, "")
        measurements.proxy(self.visit, pod_id, self.uploads)
        measurements.stopped(self.visit, pod_id)
        measurements.started(self.visit, pod_id, boot)

    def request(self, candidate: Candidate) -> CreateRequest:
        """A Pod of the probe; a later `lab rentals` would know it for ours."""
        name = naming.machine_name("doctor", 1, self.clock.wall(), secrets.token_hex(3))
        environment = {
            naming.OWNER: "doctor",
            naming.NONCE: self.visit.nonce,
            naming.TOKEN_HASH: self.visit.token_sha256,
            "LAB_PORT": str(PORT),
        }
        argv = ("python3", "-c", inspect.getsource(probe))
        return CreateRequest(
            name, candidate, IMAGE, argv, environment, PORT, 30, "/workspace", candidates.SMALLEST_VOLUME_GB
        )

    def create(self, request: CreateRequest) -> str:
        """Ask once; an answer that got lost is looked for by name."""
        try:
            machine = self.provider.create(request)
        except UncertainOutcome as error:
            machine = self.named(request.name, error)
        self.answers.pod_id = machine.id
        price = machine.dollars_per_hour
        self.visit.note(
            "the answer has a price", price is not None, f"${price}/h, listed ${request.candidate.dollars_per_hour}/h"
        )
        self.visit.note("the disk is mounted", machine.mount_path == "/workspace", f"{machine.volume_gb} GB")
        return machine.id

    def named(self, name: str, error: ProviderError) -> Machine:
        """The Pod of a creation whose answer got lost."""
        until = self.clock.monotonic() + measurements.SETTLE_SECONDS
        while self.clock.monotonic() < until:
            for machine in self.provider.list_all():
                if machine.name == name:
                    return machine
            self.clock.sleep(5)
        raise error

    def end(self, name: str, pod_id: str) -> None:
        """Delete it and see it gone. Raises `StillBilling` when that cannot be seen."""
        self.visit.until = float("inf")
        ids = {pod_id} - {""}
        try:
            ids |= {machine.id for machine in self.provider.list_all() if machine.name == name}
        except ProviderError as error:
            self.visit.say(f"the Pods cannot be listed, so only the known one is deleted: {error}")
        for identity in ids:
            self.delete(identity)
        lines = [f"{i}: {self.provider.console_url(i)}" for i in ids if not measurements.gone(self.visit, i)]
        if lines:
            raise StillBilling(f"the doctor's Pod may still cost money: {', '.join(lines)}", "Delete it there.")

    def delete(self, pod_id: str) -> None:
        """Ask until the answer is that it is gone or will be."""
        for _ in range(5):
            try:
                return self.provider.delete(pod_id)
            except NotFound:
                return None
            except ProviderError as error:
                self.visit.say(f"deletion is tried again: {error}")
                self.clock.sleep(5)
        return None
