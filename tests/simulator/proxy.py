"""The public proxy in front of a Pod's HTTP ports: its phases, its limits, and what it does to bodies on a bad day."""

from __future__ import annotations

import asyncio
import gzip
from typing import TYPE_CHECKING

import aiohttp
from aiohttp import web

from .service import cut

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .cloud import Cloud
    from .faults import Fault, Faults
    from .pod import Pod
    from .trace import Exchange

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "host", "content-length"}
PIECE = 256 * 1024
CACHEABLE = (".gz", ".zip", ".tar", ".bin", ".jpg", ".png", ".css", ".js")


class Proxy:
    """Serves /proxy/{pod}/{port}/..."""

    def __init__(self, cloud: Cloud, faults: Faults) -> None:
        self.cloud, self.faults = cloud, faults
        self.seconds = 100.0
        """How long a Pod may take to begin its answer."""
        self.max_body = 100 * 1024 * 1024
        self.drops_range = False
        """Treat a path with a cacheable ending as the CDN does: fetch the whole, ignore Range."""
        self.keep_bodies = False
        """Keep request bodies in the trace, to search them for secrets."""
        self._session: aiohttp.ClientSession | None = None

    async def open(self) -> None:
        """Be ready to connect to Pods."""
        self._session = aiohttp.ClientSession(auto_decompress=False, connector=aiohttp.TCPConnector(limit=0))

    async def close(self) -> None:
        """Drop all connections."""
        if self._session is not None:
            await self._session.close()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Pass one request on and its answer back."""
        _, _, identity, port, *rest = request.path.split("/")
        exchange = self.cloud.trace.open(
            time=self.cloud.clock.now(),
            where="proxy",
            method=request.method,
            path="/" + "/".join(rest),
            query=request.query_string,
            headers=dict(request.headers),
            pod=identity,
        )
        fault = self.faults.choose("proxy", request.method, exchange.path, identity)
        exchange.fault = (fault.name or fault.effect) if fault else ""
        if fault and not fault.applied:
            if fault.effect == "answer":
                return self._page(exchange, fault.status, fault)
            if fault.effect == "reset":
                return cut(request)
            if fault.effect == "delay":
                await self.cloud.clock.sleep(fault.seconds)
        pod = self.cloud.pods.get(identity)
        refusal = self._refusal(request, pod, port)
        if refusal:
            return self._page(exchange, refusal)
        assert pod is not None
        return await self._forward(request, exchange, pod, pod.ports[int(port)], fault)

    def _refusal(self, request: web.Request, pod: Pod | None, port: str) -> int:
        """404 while there is no route, 502 while nothing runs, 413 for too much; 0 for none of them."""
        if pod is None or not pod.alive or not port.isdigit() or int(port) not in pod.ports:
            return 404
        if pod.routed is None or self.cloud.clock.now() < pod.routed:
            return 404
        if self.cloud.clock.now() < pod.routed + pod.scenario.silent_route:
            return 502
        return 413 if (request.content_length or 0) > self.max_body else 0

    def _page(self, exchange: Exchange, status: int, fault: Fault | None = None) -> web.Response:
        """The proxy's own answer is an HTML page."""
        exchange.status = status
        text = fault.body if fault and fault.body is not None else f"<html><body><h1>{status}</h1></body></html>"
        headers = {"Content-Type": "text/html", **(fault.headers if fault else {})}
        return web.Response(status=status, body=text.encode(), headers=headers)

    async def _forward(
        self, request: web.Request, exchange: Exchange, pod: Pod, port: int, fault: Fault | None
    ) -> web.StreamResponse:
        assert self._session is not None
        stale = self._stale(request, exchange, pod)
        if stale is not None:
            return stale
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP}
        if request.content_length is not None:
            headers["Content-Length"] = str(request.content_length)
        if self.drops_range and request.path.endswith(CACHEABLE):
            headers.pop("Range", None)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=self.seconds / self.cloud.clock.factor)
        url = f"http://127.0.0.1:{port}{exchange.path}" + (f"?{request.query_string}" if request.query_string else "")
        body = self._upward(request, exchange, fault) if request.can_read_body else None
        try:
            async with self._session.request(
                request.method, url, headers=headers, data=body, timeout=timeout, allow_redirects=False
            ) as upstream:
                exchange.status = upstream.status
                return await self._back(request, exchange, pod, upstream, fault)
        except TimeoutError:
            return self._page(exchange, 524)
        except aiohttp.ClientError:
            return self._page(exchange, 502)

    async def _upward(self, request: web.Request, exchange: Exchange, fault: Fault | None) -> AsyncIterator[bytes]:
        spoilt = fault if fault and fault.direction == "request" else None
        async for piece in self._pieces(request, request.content, spoilt):
            if self.keep_bodies:
                exchange.body += piece.decode("latin-1")
            yield piece

    async def _back(
        self,
        request: web.Request,
        exchange: Exchange,
        pod: Pod,
        upstream: aiohttp.ClientResponse,
        fault: Fault | None,
    ) -> web.StreamResponse:
        fault = fault if fault and fault.direction == "response" else None
        if fault and fault.applied and fault.effect in ("answer", "reset"):
            await upstream.read()
            return self._page(exchange, fault.status, fault) if fault.effect == "answer" else cut(request)
        if fault and fault.effect in ("truncate", "gzip"):
            return await _rewritten(request, upstream, fault)
        headers = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP}
        if upstream.content_length is not None:
            headers["Content-Length"] = str(upstream.content_length)
        response = web.StreamResponse(status=upstream.status, headers=headers)
        await response.prepare(request)
        remembering = request.method == "GET" and pod.scenario.stale_route > 0
        kept = bytearray()
        try:
            async for piece in self._pieces(request, upstream.content, fault):
                await response.write(piece)
                exchange.sent += len(piece)
                if remembering:
                    kept += piece
        except (aiohttp.ClientError, TimeoutError):
            return cut(request)  # the answer has begun, so all that is left is to break it off
        await response.write_eof()
        if remembering:
            pod.remembered[exchange.path] = (upstream.status, headers, bytes(kept))
        exchange.answered = self.cloud.clock.now()
        return response

    def _stale(self, request: web.Request, exchange: Exchange, pod: Pod) -> web.Response | None:
        """What an old boot answered, while the route still points to it."""
        fresh = pod.starts == 0 or self.cloud.clock.now() > (pod.routed or 0) + pod.scenario.stale_route
        if fresh or request.method != "GET" or exchange.path not in pod.remembered:
            return None
        exchange.fault = "stale route"
        status, headers, body = pod.remembered[exchange.path]
        exchange.status = status
        return web.Response(status=status, headers=headers, body=body)

    async def _pieces(
        self, request: web.Request, content: aiohttp.StreamReader, fault: Fault | None
    ) -> AsyncIterator[bytes]:
        """A body as it comes, with a byte flipped, cut off or slowed down."""
        position = 0
        size = PIECE if not fault or fault.effect != "slow" else 1024
        async for piece in content.iter_chunked(size):
            if fault and fault.effect == "flip" and position <= fault.offset < position + len(piece):
                changed = bytearray(piece)
                changed[fault.offset - position] ^= 0x01
                piece = bytes(changed)
            if fault and fault.effect == "cut" and position + len(piece) > fault.offset:
                yield piece[: fault.offset - position]
                await asyncio.sleep(0.02)
                cut(request)
            if fault and fault.effect == "slow":
                await self.cloud.clock.sleep(len(piece) / fault.bytes_per_second)
            position += len(piece)
            yield piece


async def _rewritten(request: web.Request, upstream: aiohttp.ClientResponse, fault: Fault) -> web.StreamResponse:
    """The right status with a shorter body, or the body compressed on the way."""
    body = await upstream.read()
    headers = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP}
    if fault.effect == "gzip":
        body = gzip.compress(body)
        headers["Content-Encoding"] = "gzip"
    else:
        body = body[: fault.offset]
    return web.Response(status=upstream.status, headers=headers, body=body)
