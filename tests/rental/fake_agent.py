"""An agent in this process: one machine's disk, its job and its lease, in virtual time."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lab.rental.agent_contract import (
    CHUNK_BYTES,
    AgentRefused,
    AgentUnreachable,
    Grown,
    Hello,
    JobReport,
    Manifest,
    Poll,
    RemoteFile,
    Replaced,
    Skipped,
)

if TYPE_CHECKING:
    from rental.fake_cloud import FakeMachine

SAVING_SECONDS = 10.0


@dataclass
class JobScript:
    """What the job will do."""

    seconds: float = 600.0
    exit_code: int | None = 0
    reason: str = ""
    results: dict[str, bytes] = field(default_factory=lambda: {"summary.json": b"{}\n", "checkpoint.pt": b"w" * 5000})
    skipped: tuple[Skipped, ...] = ()
    refused: tuple[str, ...] = ()
    """Results that must not come home."""
    every: float = 5.0
    """Seconds of a step: each writes a line of metrics."""


@dataclass
class FakeJob:
    request_id: str
    content: str
    started: float
    boot_id: str
    stop_at: float | None = None
    cut_at: float | None = None
    """When the machine stopped or restarted under it."""


def remote(path: str, data: bytes) -> RemoteFile:
    pieces = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    hashes = tuple(hashlib.sha256(piece).hexdigest() for piece in pieces)
    return RemoteFile(path, len(data), hashlib.sha256(data).hexdigest(), hashes)


class FakeAgent:
    """Speaks for one machine. What the disk holds outlives a stop, what memory holds does not."""

    def __init__(self, machine: FakeMachine, token: str) -> None:
        self.machine = machine
        self.token = token
        self.trace = machine.cloud.trace

    @property
    def now(self) -> float:
        return self.machine.cloud.clock.seconds

    def _call(self, operation: str, effect: Any) -> Any:
        return self.trace.call(f"agent.{operation}", self.machine.id, lambda: self._checked(effect))

    def _checked(self, effect: Any) -> Any:
        machine = self.machine
        if machine.cloud.offline or not machine.serving:
            raise AgentUnreachable("HTTP 502, and not in the agent's words")
        expected = machine.request.environment["LAB_TOKEN_SHA256"]
        if hashlib.sha256(self.token.encode()).hexdigest() != expected:
            raise AgentRefused("unauthorized", "this machine belongs to another run")
        machine.contact = self.now
        return effect()

    def hello(self) -> Hello:
        def effect() -> Hello:
            machine = self.machine
            nonce = machine.request.environment["LAB_NONCE"]
            return Hello(nonce, machine.boot_id, self.now - machine.ready_at, machine.gpus, 10**10, 1, self._report())

        return self._call("hello", effect)

    def limits(self, lease_seconds: float, deadline_seconds: float) -> None:
        def effect() -> None:
            self.machine.lease_seconds = lease_seconds
            self.machine.deadline = self.now + deadline_seconds

        self._call("limits", effect)

    def present(self, sha256: str) -> frozenset[int]:
        return self._call("present", lambda: frozenset(self.machine.disk.setdefault("chunks", {})))

    def put_chunk(self, sha256: str, index: int, data: bytes) -> None:
        self._call("put_chunk", lambda: self.machine.disk.setdefault("chunks", {}).update({index: data}))

    def commit(self, sha256: str, size: int, into: str = "code") -> None:
        def effect() -> None:
            chunks = self.machine.disk.get("chunks", {})
            whole = b"".join(chunks[index] for index in sorted(chunks))
            if hashlib.sha256(whole).hexdigest() != sha256:
                chunks.clear()
                raise AgentRefused("damaged", "the bundle arrived damaged")
            self.machine.disk["bundle" if into == "code" else "earlier"] = sha256
            chunks.clear()

        self._call("commit", effect)

    def variables(self, values: dict[str, str]) -> None:
        self._call("variables", lambda: self.machine.memory.update(variables=dict(values)))

    def start(self, request: Any) -> JobReport:
        def effect() -> JobReport:
            known: FakeJob | None = self.machine.disk.get("job")
            if known is not None and known.request_id == request.request_id:
                return self._report()
            if self.machine.disk.get("bundle") != request.bundle_sha256:
                raise AgentRefused("conflict", "the bundle is not here")
            if request.plan["forwarded"] and "variables" not in self.machine.memory:
                raise AgentRefused("variables", "this boot knows no forwarded variables")
            job = FakeJob(request.request_id, request.bundle_sha256, self.now, self.machine.boot_id)
            self.machine.disk["job"] = job
            self.machine.disk.setdefault("starts", []).append(request.request_id)
            return self._report()

        return self._call("start", effect)

    def stop_job(self, grace_seconds: float) -> None:
        def effect() -> None:
            job: FakeJob | None = self.machine.disk.get("job")
            if job is not None and job.stop_at is None:
                job.stop_at = self.now + min(grace_seconds, SAVING_SECONDS)

        self._call("stop_job", effect)

    def poll(self, cursors: Any) -> Poll:
        def effect() -> Poll:
            grown: list[Grown] = []
            replaced: list[Replaced] = []
            if cursors is not None:
                for path, data in self._files().items():
                    if path.endswith((".jsonl", ".log")):
                        cursor = cursors.get(path)
                        offset = cursor.offset if cursor else 0
                        if offset < len(data):
                            grown.append(Grown(path, offset, data[offset:]))
                    elif path.endswith((".json", ".pt")):
                        replaced.append(Replaced(path, len(data), hashlib.sha256(data).hexdigest()[:8]))
            uptime = self.now - self.machine.ready_at
            return Poll(self.machine.boot_id, uptime, self._report(), tuple(grown), tuple(replaced))

        return self._call("poll", effect)

    def pin(self, path: str, version: str) -> RemoteFile | None:
        def effect() -> RemoteFile:
            self.machine.memory["held"] = self._files()[path]
            return remote("held:" + path, self.machine.memory["held"])

        return self._call("pin", effect)

    def manifest(self, patterns: Any, fresh: bool) -> Manifest | None:
        def effect() -> Manifest | None:
            if fresh:
                self.machine.disk["listing"] = dict(self._files())
                return None
            files = tuple(remote(path, data) for path, data in sorted(self.machine.disk["listing"].items()))
            return Manifest(files, self.machine.cloud.script.skipped)

        return self._call("manifest", effect)

    def blob(self, path: str, offset: int, length: int) -> Any:
        def effect() -> list[bytes]:
            if path.startswith("held:"):
                data = self.machine.memory.get("held", b"")
            else:
                data = self._files().get(path)
                if data is None:
                    raise AgentRefused("gone", f"{path!r} is not there any more")
            piece = data[offset : offset + length]
            return [piece[at : at + 2048] for at in range(0, len(piece), 2048)]

        for piece in self._call("blob", effect):
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def acknowledge(self) -> None:
        self._call("acknowledge", lambda: self.machine.disk.update(acknowledged=True))

    def close(self) -> None:
        pass

    def _report(self) -> JobReport | None:
        job: FakeJob | None = self.machine.disk.get("job")
        if job is None:
            return None
        script = self.machine.cloud.script
        end = self.machine.job_end()
        if end is not None and self.now >= end:
            if job.stop_at is not None and job.stop_at <= end:
                return JobReport(job.request_id, "exited", "train", 143, "asked to stop")
            if script.exit_code is None:
                return JobReport(job.request_id, "exited", "train", 137, "killed by SIGKILL: probably out of memory")
            return JobReport(job.request_id, "exited", "train", script.exit_code, script.reason)
        if job.boot_id != self.machine.boot_id:
            return JobReport(job.request_id, "interrupted", "train")
        return JobReport(job.request_id, "running", "train", seconds=self.now - job.started)

    def _files(self) -> dict[str, bytes]:
        """What the job has written by now; the results appear at its end."""
        job: FakeJob | None = self.machine.disk.get("job")
        if job is None:
            return {}
        script, end = self.machine.cloud.script, self.machine.job_end()
        until = min(self.now, end) if end is not None else (job.cut_at or self.now)
        lines = "".join(
            f'{{"kind":"step","step":{n + 1}}}\n' for n in range(int((until - job.started) // script.every))
        )
        files = {"metrics.jsonl": lines.encode(), "logs/train.log": lines.encode()}
        if end is not None and self.now >= end:
            files |= script.results
        files |= self.machine.disk.get("changed", {})
        return {path: data for path, data in files.items() if path not in self.machine.disk.get("removed", ())}


def new_boot_id() -> str:
    return secrets.token_hex(4)
