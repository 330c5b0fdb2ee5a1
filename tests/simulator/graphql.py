"""The old GraphQL API as far as it is still needed: the balance, and a second way to stop or delete a known Pod."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from aiohttp import web

from .problems import Problem

if TYPE_CHECKING:
    from .cloud import Cloud, Key


class GraphQL:
    """Serves /graphql: errors arrive with status 200, as on the service."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.answers = True
        """False: the API is retired."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one query."""
        text = await request.text()
        exchange = self.cloud.trace.open(
            time=self.cloud.clock.now(),
            where="graphql",
            method=request.method,
            path=request.path,
            query="",
            headers=dict(request.headers),
            body=text,
        )
        exchange.status = 200
        if not self.answers:
            exchange.status = 410
            return web.Response(status=410, text="Gone")
        secret = request.headers.get("Authorization", "").removeprefix("Bearer ") or request.query.get("api_key", "")
        key = self.cloud.keys.get(secret)
        if key is None:
            exchange.status = 401
            return web.Response(status=401, text="Unauthorized")
        try:
            return web.json_response({"data": await self._resolve(key, json.loads(text)["query"])})
        except Problem as problem:
            return web.json_response({"errors": [{"message": problem.body["detail"]}], "data": None})

    async def _resolve(self, key: Key, query: str) -> dict[str, Any]:
        match = re.search(r"(podStop|podTerminate)\s*\(\s*input\s*:\s*\{\s*podId\s*:\s*\"(\w+)\"", query)
        if match is not None:
            mutation, identity = match.groups()
            pod = self.cloud.pods.get(identity)
            if pod is None or not pod.alive or pod.account != key.account or key.pod not in (None, identity):
                raise Problem.of(404, "pod not found to terminate")
            if key.pod is not None and self.cloud.pod_keys != "allowed":
                raise Problem.of(403, "forbidden")
            if mutation == "podStop":
                await self.cloud.act(pod, "stop")
                return {"podStop": {"id": identity, "desiredStatus": "EXITED"}}
            await self.cloud.life.terminate(pod)
            return {"podTerminate": None}
        if "myself" in query:
            left = self.cloud.balance - self.cloud.spent()
            rate = sum(pod.hourly() for pod in self.cloud.pods.values())
            return {"myself": {"clientBalance": left, "currentSpendPerHr": rate}}
        raise Problem.of(400, "not simulated")
