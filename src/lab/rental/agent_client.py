"""The agent's words over HTTP: what is not provably the agent's own answer, whole and unchanged, counts as none."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args
from urllib.parse import urlsplit

import httpx

from lab.rental.agent_contract import (
    AgentRefused,
    AgentUnreachable,
    Grown,
    Hello,
    JobReport,
    Manifest,
    Poll,
    Refusal,
    RemoteFile,
    Replaced,
    Skipped,
)
from lab.rental.clock import SystemClock
from lab.runs.provenance import lab_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lab.rental.agent_contract import Cursor, JobRequest
    from lab.rental.clock import Clock

T = TypeVar("T")
REFUSALS: tuple[Refusal, ...] = get_args(Refusal)
SERVICE = "lab-agent"
TIMEOUT = httpx.Timeout(60.0, connect=10.0, read=45.0)
REQUEST_SECONDS = 60.0
"""After so long a body that still trickles in is broken off; what came of it is kept."""
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class HttpAgent:
    """One machine's agent. Threads may share it."""

    def __init__(
        self, url: str, token: str, clock: Clock | None = None, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._clock = clock or SystemClock()
        headers = {
            "Authorization": f"Bearer {token}",
            "User-Agent": f"lab/{lab_version()}",
            "Accept-Encoding": "identity",
        }
        trust = urlsplit(url).hostname not in LOOPBACK  # a proxy of this machine's network never leads to itself
        self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT, trust_env=trust, transport=transport)

    def close(self) -> None:
        """Give the connections back."""
        self._http.close()

    def hello(self) -> Hello:
        """Who are you?"""
        answer = self._ask("GET", "/v1/hello")
        names = ("nonce", "boot_id", "uptime_seconds", "disk_free_bytes", "boots")
        return _made(lambda: Hello(**_chosen(answer, names), gpus=tuple(answer["gpus"]), job=_job(answer.get("job"))))

    def limits(self, lease_seconds: float, deadline_seconds: float) -> None:
        """Set how long to live."""
        self._ask("POST", "/v1/limits", {"lease_seconds": lease_seconds, "limit_seconds": deadline_seconds})

    def present(self, sha256: str) -> frozenset[int]:
        """Which chunks are there."""
        return frozenset(self._ask("GET", f"/v1/upload/{sha256}")["present"])

    def put_chunk(self, sha256: str, index: int, data: bytes) -> None:
        """Store one chunk."""
        headers = {"X-Chunk-SHA256": hashlib.sha256(data).hexdigest(), "Content-Type": "application/octet-stream"}
        self._ask("PUT", f"/v1/upload/{sha256}/{index}", content=data, headers=headers)

    def commit(self, sha256: str, size: int, into: Literal["code", "run"] = "code") -> None:
        """Check and unpack."""
        self._ask("POST", f"/v1/upload/{sha256}/commit", {"size": size, "into": into})

    def variables(self, values: Mapping[str, str]) -> None:
        """Hand over variables, in the body and nowhere else."""
        self._ask("POST", "/v1/variables", {"values": dict(values)})

    def start(self, request: JobRequest) -> JobReport:
        """Start the job."""
        report = _job(self._ask("POST", "/v1/job", asdict(request))["job"])
        if report is None:
            raise AgentUnreachable("the agent took the job and does not report on it")
        return report

    def stop_job(self, grace_seconds: float) -> None:
        """Ask the job to save and end."""
        self._ask("POST", "/v1/job/stop", {"grace_seconds": grace_seconds})

    def poll(self, cursors: Mapping[str, Cursor] | None) -> Poll:
        """One look."""
        sent = {path: asdict(cursor) for path, cursor in cursors.items()} if cursors is not None else None
        answer = self._ask("POST", "/v1/poll", {"cursors": sent})
        return _made(lambda: _poll(answer))

    def pin(self, path: str, version: str) -> RemoteFile | None:
        """Hold a file."""
        file = self._ask("POST", "/v1/pin", {"path": path, "version": version})["file"]
        return _made(lambda: _file(file)) if file is not None else None

    def manifest(self, patterns: Sequence[str], fresh: bool) -> Manifest | None:
        """The results."""
        listed = self._ask("POST", "/v1/manifest", {"patterns": list(patterns), "fresh": fresh})["manifest"]
        if listed is None:
            return None
        skipped = tuple(Skipped(item["path"], item["why"]) for item in listed["skipped"])
        return _made(lambda: Manifest(tuple(_file(item) for item in listed["files"]), skipped))

    def acknowledge(self) -> None:
        """All is home."""
        self._ask("POST", "/v1/acknowledge", {})

    def blob(self, path: str, offset: int, length: int) -> Iterator[bytes]:
        """Bytes of a file. The address changes with every try, because a cache on the way may not do as it is told."""
        query: dict[str, str | int] = {"path": path, "offset": offset, "length": length, "try": secrets.token_hex(4)}
        until = self._clock.monotonic() + REQUEST_SECONDS
        try:
            with self._http.stream("GET", "/v1/blob", params=query) as response:
                self._must_be_bytes(response, length)
                for piece in response.iter_raw():
                    yield piece
                    if self._clock.monotonic() > until:
                        raise AgentUnreachable(f"the answer still trickles in after {REQUEST_SECONDS:.0f} s")
        except httpx.HTTPError as error:
            raise AgentUnreachable(f"{type(error).__name__}: {error}") from error

    def _must_be_bytes(self, response: httpx.Response, length: int) -> None:
        kind = response.headers.get("Content-Type", "")
        if response.status_code != 200 or kind != "application/octet-stream":
            response.read()
            self._judge(response)
            raise AgentUnreachable("the agent answered with words where bytes were asked for")
        if response.headers.get("Content-Encoding", "identity") != "identity":
            raise AgentUnreachable("a proxy changed the bytes on the way")
        if response.headers.get("Content-Length") != str(length):
            raise AgentUnreachable("the answer has another length than was asked for")

    def _ask(self, method: str, path: str, body: object = None, **request: Any) -> dict[str, Any]:
        if body is not None:
            request["json"] = body
        try:
            return self._judge(self._http.request(method, path, **request))
        except httpx.HTTPError as error:
            raise AgentUnreachable(f"{type(error).__name__}: {error}") from error

    @staticmethod
    def _judge(response: httpx.Response) -> dict[str, Any]:
        """The agent's own answer; anything else, whatever its status says, is none."""
        told = response.headers.get("X-Body-SHA256", "")
        if told != hashlib.sha256(response.content).hexdigest():
            raise AgentUnreachable(f"HTTP {response.status_code}, and not in the agent's words")
        answer = json.loads(response.content)
        if not isinstance(answer, dict) or answer.get("service") != SERVICE:
            raise AgentUnreachable(f"HTTP {response.status_code} from something that is no agent")
        if "error" not in answer:
            return answer
        code: Refusal = next((known for known in REFUSALS if known == answer["error"]), "invalid")
        raise AgentRefused(code, str(answer.get("message", "")))


def connect(url: str, token: str) -> HttpAgent:
    """The agent at this address."""
    return HttpAgent(url, token)


def _made(make: Callable[[], T]) -> T:
    """Build a value from an answer; one that lacks what it must have was not understood."""
    try:
        return make()
    except (KeyError, TypeError, ValueError) as error:
        raise AgentUnreachable(f"the agent's answer lacks something: {error!r}") from error


def _chosen(answer: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    return {name: answer[name] for name in names}


def _job(report: Mapping[str, Any] | None) -> JobReport | None:
    if report is None:
        return None
    return _made(
        lambda: JobReport(**_chosen(report, ("request_id", "phase", "stage", "exit_code", "reason", "seconds")))
    )


def _file(file: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(file["path"], file["size"], file["sha256"], tuple(file["chunks"]))


def _poll(answer: Mapping[str, Any]) -> Poll:
    grown = tuple(Grown(one["path"], one["offset"], base64.b64decode(one["data"])) for one in answer.get("grown", ()))
    replaced = tuple(Replaced(one["path"], one["size"], one["version"]) for one in answer.get("replaced", ()))
    return Poll(
        answer["boot_id"], answer["uptime_seconds"], _job(answer["job"]), grown, replaced, tuple(answer["notices"])
    )
