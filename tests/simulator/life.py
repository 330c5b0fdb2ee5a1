"""The life of a Pod: it boots, runs, is started again when it ends by itself, and is stopped or deleted."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from . import image
from .container import Container
from .problems import Problem

if TYPE_CHECKING:
    from .cloud import Cloud
    from .pod import Pod


class Life:
    """Moves the Pods of a cloud from status to status."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._dooms: list[asyncio.Task[None]] = []

    def begin(self, pod: Pod) -> None:
        """Let it boot."""
        if pod.scenario.running_at_once:
            pod.status = "RUNNING"
        if pod.scenario.ends is not None and pod.starts == 0:
            self._dooms.append(asyncio.get_running_loop().create_task(self._doom(pod)))
        pod.life = asyncio.get_running_loop().create_task(self._live(pod))

    def close(self) -> None:
        """Let nothing more happen by itself."""
        lives = [pod.life for pod in self.cloud.pods.values() if pod.life is not None]
        for task in [*self._dooms, *lives]:
            task.cancel()

    async def _live(self, pod: Pod) -> None:
        """Boot, run, restart what ends by itself, until stopped or deleted."""
        scenario = pod.scenario
        pod.say(self.cloud.clock.now(), "system", f"create pod {pod.id} on {pod.host.id}")
        await self._phase(pod, "PROVISIONING", scenario.provisioning)
        pod.say(self.cloud.clock.now(), "system", f"pulling image {pod.request['image']}")
        for line in scenario.system_log:
            pod.say(self.cloud.clock.now(), "system", line)
        await self._phase(pod, "STARTING", scenario.starting)
        pod.status = "RUNNING"
        if scenario.silent:
            return
        while True:
            code = await self._boot(pod)
            pod.say(self.cloud.clock.now(), "system", f"container exited with code {code}; restarting")
            self.cloud.note(pod, f"container exited {code}")
            await self.cloud.clock.sleep(scenario.restart)

    async def _phase(self, pod: Pod, status: str, seconds: float) -> None:
        if not pod.scenario.running_at_once:
            pod.status = status
        if pod.scenario.stuck == status:
            await asyncio.Event().wait()
        await self.cloud.clock.sleep(seconds)

    async def _boot(self, pod: Pod) -> int:
        """Run the container once, on a fresh disk."""
        image.prepare(pod.folder, pod, self.cloud.api_url, self.cloud.packages)
        pod.boots += 1
        pod.started = self.cloud.clock.now()
        pod.routed = pod.started + pod.scenario.route
        pod.say(pod.started, "system", "start container")
        self.cloud.note(pod, f"boot {pod.boots}")
        order = {
            "argv": image.command(pod),
            "env": image.environment(pod.folder, pod, self.cloud.packages),
            "cwd": str(pod.folder / "container"),
            "log": str(pod.folder / f"boot-{pod.boots}.log"),
            "grace": self.cloud.grace,
            "largest_file": self.cloud.largest_file,
        }
        pod.container = Container(order, lambda line: pod.say(self.cloud.clock.now(), "container", line))
        return await pod.container.wait()

    async def _doom(self, pod: Pod) -> None:
        await self.cloud.clock.sleep(pod.scenario.ends_after)
        if not pod.alive:
            return
        if pod.scenario.ends == "TERMINATED":
            await self.terminate(pod)
        else:
            await self.halt(pod, pod.scenario.ends or "ERROR")

    async def halt(self, pod: Pod, status: str) -> None:
        """End its container and free its GPUs; its volume and its host stay."""
        if pod.life is not None:
            pod.life.cancel()
        pod.status = status
        pod.started = pod.routed = None
        pod.rate_changed(self.cloud.clock.now())
        if pod.held:
            pod.host.free += pod.gpu_count
            pod.held = False
        self.cloud.note(pod, status.lower())
        if pod.container is not None:
            await pod.container.stop()
            pod.container = None

    async def stop(self, pod: Pod) -> None:
        """Stop it, unless it is one that only says so."""
        if pod.locked:
            raise Problem(409, "Conflict", "pod is locked")
        if pod.scenario.stops_ignored > 0:
            pod.scenario.stops_ignored -= 1
            return
        await self.halt(pod, "EXITED")

    async def start(self, pod: Pod) -> None:
        """Start it on the host that it is bound to."""
        wanted = pod.gpu_count if pod.scenario.gpus_on_start is None else pod.scenario.gpus_on_start
        if pod.host.free < wanted:
            raise Problem(
                400, "Bad Request", "Failed to resume pod. There are not enough free GPUs on the host machine."
            )
        pod.host.free -= pod.gpu_count
        pod.held = True
        pod.gpus_seen = wanted
        pod.starts += 1
        pod.status = "PROVISIONING"
        pod.rate_changed(self.cloud.clock.now())
        self.begin(pod)

    async def restart(self, pod: Pod) -> None:
        """Stop and start in one."""
        await self.halt(pod, "EXITED")
        await self.start(pod)

    async def terminate(self, pod: Pod) -> None:
        """Delete it with its own volume; a network volume stays."""
        if pod.scenario.deletes_ignored > 0:
            pod.scenario.deletes_ignored -= 1
            pod.hidden_until = self.cloud.clock.now() + pod.scenario.hidden
            return
        await self.halt(pod, "TERMINATED")
        pod.terminated = self.cloud.clock.now()
        pod.rate_changed(pod.terminated)
