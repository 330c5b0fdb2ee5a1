"""Fenland as lab sees any cloud: each call asks once, and says what came of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.rental import NoSecondWay, RequestRejected, SelfStop, UncertainOutcome, Unreachable
from lab_fenland import boxes
from lab_fenland.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.rental import Candidate, CreateRequest, Machine, Needs
    from lab_fenland.options import FenlandOptions

DATA_CENTS_PER_GIB_DAY = 0.5
SPOILT = ("no such image", "image is for another processor", "card is gone")
"""What the console of a box says when it will never come up."""


class FenlandProvider:
    """Implements `lab.rental.Provider`."""

    name = "fenland"
    secret_variables: tuple[str, ...] = ("FENLAND_BOX_PASS",)

    def __init__(self, options: FenlandOptions) -> None:
        self.options = options
        self.calls = Calls()

    def account(self) -> str:
        """Which pass asks."""
        return self.calls.fingerprint()

    def candidates(self, needs: Needs) -> Sequence[Candidate]:
        """Cheapest first."""
        if needs.network_volume is not None:
            raise RequestRejected("environment.network_volume: Fenland has none; say volume_gb instead")
        kinds = self.calls.make("shelf.look")["kinds"]
        found = [one for one in boxes.candidates(kinds, self.options.sites) if needs.gpu in (None, one.gpu)]
        return sorted(found, key=lambda one: one.dollars_per_hour)

    def create(self, request: CreateRequest) -> Machine:
        """Launch a box."""
        box = self.calls.make(
            "boxes.launch",
            changing=True,
            label=request.name,
            model=request.candidate.gpu,
            cards=request.candidate.gpus,
            site=request.candidate.data_center,
            image=request.image,
            run=list(request.argv),
            vars=[[name, value] for name, value in request.environment.items()],
            open_port=request.port,
            root_gib=request.disk_gb,
            data={"path": request.mount_path, "gib": request.volume_gb},
        )
        try:
            return boxes.machine(box)
        except (KeyError, TypeError) as error:
            raise UncertainOutcome(f"boxes.launch: the answer is no box: {error}") from error

    def get(self, machine_id: str) -> Machine:
        """Describe one box."""
        return _read(self._show(machine_id))

    def list_all(self) -> Sequence[Machine]:
        """Every box of the account, page by page."""
        found: list[Machine] = []
        after = 0
        while True:
            page = self.calls.make("boxes.all", after=after)
            found.extend(_read(box) for box in page["boxes"])
            if not page["more"]:
                return found
            last = int(found[-1].id) if found else after
            if last <= after:
                raise Unreachable("boxes.all: says that there is more and does not go on: it is incomplete")
            after = last

    def stop(self, machine_id: str) -> None:
        """Park the box: its data stays."""
        self.calls.make("boxes.park", changing=True, box=int(machine_id))

    def start(self, machine_id: str) -> None:
        """Wake a parked box."""
        self.calls.make("boxes.wake", changing=True, box=int(machine_id))

    def delete(self, machine_id: str) -> None:
        """Drop the box with its data."""
        self.calls.make("boxes.drop", changing=True, box=int(machine_id))

    def system_logs(self, machine_id: str) -> Sequence[str]:
        """The box's console."""
        return list(self.calls.make("boxes.console", box=int(machine_id))["lines"])

    def boot_failure(self, lines: Sequence[str]) -> str | None:
        """The first line that spoils all hope."""
        return next((line for line in lines if any(word in line for word in SPOILT)), None)

    def agent_url(self, machine_id: str, port: int) -> str:
        """The door of the port; a box has one from when it is up, and another one after each wake."""
        doors = self._show(machine_id).get("doors") or {}
        if str(port) not in doors:
            raise Unreachable(f"box {machine_id} has no door yet")
        return str(doors[str(port)]).rstrip("/")

    def console_url(self, machine_id: str) -> str:
        """The page of a box."""
        return f"https://console.fenland.example/boxes/{machine_id}"

    def stopped_dollars_per_hour(self, volume_gb: int) -> float:
        """A parked box pays for its data alone."""
        return volume_gb * DATA_CENTS_PER_GIB_DAY / 100 / 24

    def emergency_stop(self, machine_id: str) -> None:
        """There is one API only."""
        raise NoSecondWay("Fenland has no second API")

    def emergency_delete(self, machine_id: str) -> None:
        """There is one API only."""
        raise NoSecondWay("Fenland has no second API")

    def self_stop(self) -> Sequence[SelfStop]:
        """By the pass that Fenland puts into each box, which may park that box alone."""
        headers = {"X-Fenland-Pass": "{FENLAND_BOX_PASS}", "Content-Type": "application/json"}
        body = json.dumps({"do": "boxes.park", "with": {"box": "{FENLAND_BOX}"}})
        return (SelfStop(url=self.calls.address, headers=headers, body=body),)

    def _show(self, machine_id: str) -> dict[str, Any]:
        box: dict[str, Any] = self.calls.make("boxes.show", box=int(machine_id))
        return box


def _read(box: dict[str, Any]) -> Machine:
    try:
        return boxes.machine(box)
    except (KeyError, TypeError) as error:
        raise Unreachable(f"an answer is no box: {error}") from error
