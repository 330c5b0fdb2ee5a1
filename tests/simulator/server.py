"""The simulator as one object: a server in a thread of its own, and everything that a test wants to reach."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .clock import Clock
from .cloud import Cloud, Key
from .control import Control
from .faults import Fault, Faults
from .graphql import GraphQL
from .limits import Limits
from .proxy import Proxy
from .service import Service
from .trace import Trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from .pod import Pod

ACCOUNT_KEY = "rpa_simulated_account_0123456789abcdef"


class Simulator:
    """`with Simulator(factor=60) as cloud:`; nothing of it is alive afterwards."""

    def __init__(
        self,
        factor: float = 1.0,
        seed: int = 0,
        packages: Path | None = None,
        folder: Path | None = None,
        port: int = 0,
        account_key: str = ACCOUNT_KEY,
    ) -> None:
        self._made_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="simulator-"))
        self.clock = Clock(factor)
        self.trace = Trace()
        self.account_key = account_key
        self.cloud = Cloud(self.folder, self.clock, self.trace, packages)
        self.cloud.keys[account_key] = Key("account")
        self.faults = Faults(seed)
        self.limits = Limits()
        self.proxy = Proxy(self.cloud, self.faults)
        self.graphql = GraphQL(self.cloud)
        self.port = port
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulator", daemon=True)

    @property
    def url(self) -> str:
        """Where everything is served."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def api_url(self) -> str:
        """The REST API."""
        return f"{self.url}/v2"

    @property
    def proxy_url(self) -> str:
        """The template of a Pod's public address."""
        return self.url + "/proxy/{pod_id}/{port}"

    @property
    def pods(self) -> list[Pod]:
        """Every Pod there ever was, oldest first."""
        return list(self.cloud.pods.values())

    @property
    def alive(self) -> list[Pod]:
        """The Pods that exist."""
        return [pod for pod in self.pods if pod.alive]

    def arm(self, effect: Any, **fields: Any) -> Fault:
        """Arm a fault; see `Fault`."""
        return self.faults.arm(Fault(effect, **fields))

    def do(self, action: Callable[[], Any]) -> Any:
        """Run something in the simulator's own thread, and return what it returns or awaits."""

        async def call() -> Any:
            result = action()
            return await result if asyncio.iscoroutine(result) else result

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(30)

    def __enter__(self) -> Simulator:
        self._thread.start()
        if not self._ready.wait(10):
            raise RuntimeError("the simulator did not start")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        if self._made_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        runner = self._loop.run_until_complete(self._open())
        watch = self._loop.create_task(self.cloud.watch_balance())
        self._ready.set()
        try:
            self._loop.run_forever()
        finally:
            watch.cancel()
            self.cloud.close()
            self._loop.run_until_complete(self._close(runner))
            self._loop.close()

    async def _open(self) -> web.AppRunner:
        app = web.Application(client_max_size=0)
        service = Service(self.cloud, self.faults, self.limits)
        app.add_routes(Control(self.cloud, self.faults).routes())
        app.router.add_route("*", "/v2{rest:.*}", service.handle)
        app.router.add_route("*", "/v1{rest:.*}", _retired)
        app.router.add_route("*", "/graphql", self.graphql.handle)
        app.router.add_route("*", "/proxy/{rest:.*}", self.proxy.handle)
        await self.proxy.open()
        runner = web.AppRunner(app, shutdown_timeout=0.2, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", self.port)
        await site.start()
        self.port = int(runner.addresses[0][1])
        self.cloud.api_url = self.api_url
        return runner

    async def _close(self, runner: web.AppRunner) -> None:
        await runner.cleanup()
        await self.proxy.close()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_asyncgens()


async def _retired(request: web.Request) -> web.Response:
    """REST v1."""
    return web.Response(status=410, text="Gone")
