"""The control interface, outside /v2: arm faults, read the trace, the bill and the living Pods."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from aiohttp import web

from .faults import Fault
from .scenario import Scenario

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from .cloud import Cloud
    from .faults import Faults

CLOUD_SWITCHES = ("balance", "pod_keys", "page_size", "grace")


class Control:
    """For a simulator in another process; one in this process is used directly."""

    def __init__(self, cloud: Cloud, faults: Faults) -> None:
        self.cloud, self.faults = cloud, faults

    def routes(self) -> list[web.RouteDef]:
        """What it serves."""
        handlers: list[tuple[str, str, Callable[[web.Request], Awaitable[web.Response]]]] = [
            ("GET", "/control/pods", self.pods),
            ("GET", "/control/trace", self.trace),
            ("GET", "/control/bill", self.bill),
            ("GET", "/control/faults", self.armed),
            ("POST", "/control/faults", self.arm),
            ("DELETE", "/control/faults", self.disarm),
            ("POST", "/control/scenarios", self.scenario),
            ("POST", "/control/cloud", self.switch),
            ("POST", "/control/clock", self.skip),
        ]
        return [web.route(method, path, handler) for method, path, handler in handlers]

    async def pods(self, request: web.Request) -> web.Response:
        """Every Pod there ever was."""
        rows = [
            {"id": p.id, "name": p.request["name"], "status": p.status, "alive": p.alive, "boots": p.boots}
            for p in self.cloud.pods.values()
        ]
        return web.json_response({"pods": rows})

    async def trace(self, request: web.Request) -> web.Response:
        """All requests and events."""
        return web.json_response(self.cloud.trace.record())

    async def bill(self, request: web.Request) -> web.Response:
        """Dollars spent, and what is left."""
        spent = self.cloud.spent()
        return web.json_response({"spent": spent, "balance": self.cloud.balance - spent})

    async def armed(self, request: web.Request) -> web.Response:
        """The armed faults, with how often each has fired."""
        return web.json_response({"faults": [asdict(fault) for fault in self.faults.armed]})

    async def arm(self, request: web.Request) -> web.Response:
        """Arm one fault."""
        return web.json_response(asdict(self.faults.arm(Fault(**await request.json()))))

    async def disarm(self, request: web.Request) -> web.Response:
        """Cure all faults."""
        self.faults.disarm()
        return web.json_response({})

    async def scenario(self, request: web.Request) -> web.Response:
        """Say how the next Pod will fare."""
        self.cloud.queue.append(Scenario.of(await request.json()))
        return web.json_response({"queued": len(self.cloud.queue)})

    async def switch(self, request: web.Request) -> web.Response:
        """Change one of the cloud's switches."""
        for name, value in (await request.json()).items():
            if name not in CLOUD_SWITCHES:
                raise web.HTTPBadRequest(text=f"no switch {name}")
            setattr(self.cloud, name, value)
        return web.json_response({})

    async def skip(self, request: web.Request) -> web.Response:
        """Move the simulated time forward."""
        self.cloud.clock.skip(float((await request.json())["seconds"]))
        return web.json_response({"now": self.cloud.clock.now()})
