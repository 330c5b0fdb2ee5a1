"""A Pod's logs as server-sent events: the last lines, then each new one, until the caller leaves."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiohttp import web

from .operations import find
from .problems import Problem

if TYPE_CHECKING:
    from .operations import Call
    from .pod import LogLine, Pod


HALF_A_MICROSECOND = 5e-7
"""A line's id, its time, has whole ones."""


async def stream(request: web.Request, call: Call, headers: dict[str, str]) -> web.StreamResponse:
    """GET /v2/pods/{id}/logs."""
    pod = find(call)
    response = web.StreamResponse(
        headers={**headers, "Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    sent = _start(request, call, pod)
    try:
        while True:
            lines = _lines(call, pod)
            for line in lines:
                if line.moment > sent + HALF_A_MICROSECOND:
                    await response.write(_event(call, line))
                    sent = line.moment
            await asyncio.sleep(0.02)
    except (ConnectionResetError, asyncio.CancelledError):
        return response


def _lines(call: Call, pod: Pod) -> list[LogLine]:
    source = call.query.get("source")
    if source not in (None, "container", "system"):
        raise Problem.of(400, f"unknown source {source}")
    return [line for line in pod.log if source in (None, line.source)]


def _start(request: web.Request, call: Call, pod: Pod) -> float:
    """The moment after which lines are sent."""
    known = request.headers.get("Last-Event-ID") or call.query.get("since")
    if known:
        return call.cloud.clock.moment(known)
    tail = int(call.query.get("tail", "100"))
    lines = _lines(call, pod)
    if tail == 0 or not lines:
        return lines[-1].moment if lines else -1.0
    return lines[-1 - tail].moment if tail < len(lines) else -1.0


def _event(call: Call, line: LogLine) -> bytes:
    moment = call.cloud.clock.utc(line.moment)
    data = json.dumps({"source": line.source, "line": line.text, "ts": moment})
    return f"id: {moment}\ndata: {data}\n\n".encode()
