"""The API's front: the edge that blocks, keys, limits, validation both ways, faults, and the trace."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
from typing import TYPE_CHECKING, Any

from aiohttp import web

from . import logstream, specification
from .operations import OPERATIONS, Call
from .problems import Problem

if TYPE_CHECKING:
    from .cloud import Cloud, Key
    from .faults import Fault, Faults
    from .limits import Limits
    from .trace import Exchange

MAX_BODY = 102_400
PROBLEM = "application/problem+json"
JSON = "application/json"


class Service:
    """Serves everything below /v2."""

    def __init__(self, cloud: Cloud, faults: Faults, limits: Limits) -> None:
        self.cloud, self.faults, self.limits = cloud, faults, limits

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request, or cut its connection when a fault says so."""
        body = await request.read()
        exchange = self.cloud.trace.open(
            time=self.cloud.clock.now(),
            where="api",
            method=request.method,
            path=request.path,
            query=request.query_string,
            headers=dict(request.headers),
            body=body.decode("utf-8", "replace"),
            pod=request.path.split("/")[3] if request.path.startswith("/v2/pods/") else None,
        )
        fault = self.faults.choose("api", request.method, request.path, exchange.pod)
        exchange.fault = (fault.name or fault.effect) if fault else ""
        if fault and fault.effect == "delay" and not fault.applied:
            await self.cloud.clock.sleep(fault.seconds)
        if fault and fault.effect in ("answer", "reset") and not fault.applied:
            return await self._spoil(request, exchange, fault, None)
        response = await self._answer(request, body)
        if fault and fault.effect == "delay" and fault.applied:
            await self.cloud.clock.sleep(fault.seconds)
        elif fault and fault.effect != "delay":
            response = await self._spoil(request, exchange, fault, response)
        exchange.status = response.status
        exchange.answered = self.cloud.clock.now()
        return response

    async def _spoil(
        self, request: web.Request, exchange: Exchange, fault: Fault, response: web.StreamResponse | None
    ) -> web.StreamResponse:
        """What the caller gets instead of the true answer."""
        if fault.effect == "reset":
            return cut(request)
        if fault.effect == "answer":
            response = _plain(fault)
            exchange.status = response.status
            return response
        if not isinstance(response, web.Response):
            raise TypeError(f"a stream cannot be spoilt by {fault.effect}")
        if fault.effect == "patch":
            response.body = json.dumps(_patched(json.loads(response.text or "{}"), fault.change)).encode()
        elif fault.effect == "truncate":
            response.body = bytes(response.body or b"")[: fault.offset]  # type: ignore[arg-type]
        elif fault.effect == "cut":
            return await _cut_short(request, response, fault.offset)
        return response

    async def _answer(self, request: web.Request, body: bytes) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        if not agent or agent.startswith("Python-urllib"):
            return web.Response(status=403, text="error code: 1010", content_type="text/plain")
        headers = {"x-request-id": secrets.token_hex(8)}
        try:
            key, secret = self._key(request)
        except Problem as problem:
            return self._problem(request, problem, headers)
        try:
            if not self.limits.admit(secret, self.cloud.clock.now()):
                headers["Retry-After"] = str(self.limits.retry_after(secret, self.cloud.clock.now()))
                raise Problem.of(429, "rate limit exceeded")
            headers.update(self.limits.headers(secret, self.cloud.clock.now()))
            return await self._operate(request, key, body, headers)
        except Problem as problem:
            headers.update(self.limits.headers(secret, self.cloud.clock.now()))
            return self._problem(request, problem, headers)

    def _key(self, request: web.Request) -> tuple[Key, str]:
        scheme, _, secret = request.headers.get("Authorization", "").partition(" ")
        if scheme != "Bearer" or not secret:
            raise Problem.of(401, "missing bearer token")
        if secret not in self.cloud.keys:
            raise Problem.of(401, "invalid bearer token")
        return self.cloud.keys[secret], secret

    async def _operate(self, request: web.Request, key: Key, raw: bytes, headers: dict[str, str]) -> web.StreamResponse:
        template = specification.template(request.path)
        if template is None:
            raise Problem.of(404, f"no such path: {request.path}")
        allowed = specification.methods(template)
        if request.method not in allowed:
            headers["Allow"] = ", ".join(allowed)
            raise Problem.of(405, f"{request.method} is not supported")
        body = _body(template, request.method, raw)
        operation = specification.document()["paths"][template][request.method.lower()]["operationId"]
        call = Call(self.cloud, key, _identity(template, request.path), dict(request.query), body)
        if operation == "getPodLogs":
            return await logstream.stream(request, call, headers)
        if operation not in OPERATIONS:
            raise Problem.of(501, f"{operation} is not simulated")
        status, answer = await OPERATIONS[operation](call)
        self._judge(template, request.method, status, JSON, answer)
        return _response(status, answer, JSON, headers)

    def _problem(self, request: web.Request, problem: Problem, headers: dict[str, str]) -> web.Response:
        template = specification.template(request.path)
        if template is not None and request.method in specification.methods(template):
            self._judge(template, request.method, problem.status, PROBLEM, problem.body)
        return _response(problem.status, problem.body, PROBLEM, headers)

    def _judge(self, template: str, method: str, status: int, content_type: str, answer: object) -> None:
        for fault in specification.answer_faults(template, method, status, content_type, answer):
            self.cloud.trace.violations.append(f"{method} {template}: {fault}")


def cut(request: web.Request) -> web.StreamResponse:
    """Reset the connection."""
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError


def _body(template: str, method: str, raw: bytes) -> Any:
    if len(raw) > MAX_BODY:
        raise Problem.of(413, f"request body over {MAX_BODY} bytes")
    if method not in ("POST", "PATCH", "PUT"):
        return None
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Problem.of(400, f"the body is not JSON: {error}") from error
    faults = specification.request_faults(template, method, body)
    if faults:
        raise Problem(422, "Unprocessable Entity", faults[0], faults)
    return body


def _identity(template: str, path: str) -> str:
    match = re.fullmatch(re.sub(r"\{\w+\}", "([^/]+)", template), path)
    return match.group(1) if match is not None and match.groups() else ""


def _response(status: int, answer: Any, content_type: str, headers: dict[str, str]) -> web.Response:
    if answer is None:
        return web.Response(status=status, headers=headers)
    return web.Response(
        status=status, body=json.dumps(answer).encode(), headers={**headers, "Content-Type": content_type}
    )


def _plain(fault: Fault) -> web.Response:
    if fault.body is None:
        return _response(fault.status, Problem.of(fault.status, "injected").body, PROBLEM, fault.headers)
    headers = {"Content-Type": "text/html", **fault.headers}
    return web.Response(status=fault.status, body=fault.body.encode(), headers=headers)


def _patched(answer: Any, change: dict[str, Any]) -> Any:
    rows = answer.get("pods") if isinstance(answer.get("pods"), list) else None
    for target in [answer] if rows is None or any(name in answer for name in change) else rows:
        for name, value in change.items():
            if value == "ABSENT":
                target.pop(name, None)
            else:
                target[name] = value
    return answer


async def _cut_short(request: web.Request, response: web.Response, offset: int) -> web.StreamResponse:
    """Promise the whole length, send a part, reset."""
    whole = bytes(response.body or b"")  # type: ignore[arg-type]
    partial = web.StreamResponse(
        status=response.status, headers={**response.headers, "Content-Length": str(len(whole))}
    )
    await partial.prepare(request)
    await partial.write(whole[:offset])
    await asyncio.sleep(0.02)
    return cut(request)
