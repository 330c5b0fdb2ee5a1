"""Serves repositories of the hub's shape on loopback; fails, stalls or cuts short when a test asks for it."""

from __future__ import annotations

import hashlib
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["datasets", "models"]


@dataclass
class Fault:
    """What the next `times` requests whose path contains `part` meet."""

    part: str
    times: int
    status: int | None = None
    stall: bool = False
    """Accept, and answer nothing until the hub closes."""
    cut: bool = False
    """Promise all bytes and send half of them."""


@dataclass
class Repository:
    """Files by commit, and names for commits."""

    kind: Kind
    name: str
    commits: dict[str, dict[str, bytes]]
    refs: dict[str, str] = field(default_factory=dict)

    def commit(self, revision: str) -> str | None:
        """The full commit that a branch or a commit names."""
        found = self.refs.get(revision, revision)
        return found if found in self.commits else None


class Hub:
    """Use as a context manager; `url` is what HF_ENDPOINT should be."""

    def __init__(self, *repositories: Repository) -> None:
        self.repositories = {(repository.kind, repository.name): repository for repository in repositories}
        self.requests: list[str] = []
        self.faults: list[Fault] = []
        self.closing = threading.Event()
        self._server = Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        host, port = self._server.server_address[:2]
        return f"http://{host}:{port}"

    def fault_for(self, path: str) -> Fault | None:
        for fault in self.faults:
            if fault.times > 0 and fault.part in path:
                fault.times -= 1
                return fault
        return None


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.hub = hub


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def log_message(self, *arguments: object) -> None:
        pass

    def _answer(self, body: bool) -> None:
        path = unquote(urlsplit(self.path).path)
        self.server.hub.requests.append(f"{self.command} {path}")
        fault = self.server.hub.fault_for(path)
        if fault is not None and fault.stall:
            self.server.hub.closing.wait()
            self.close_connection = True
            return
        if fault is not None and fault.status is not None:
            self._send(fault.status, b"", body)
            return
        parts = path.strip("/").split("/")
        if parts[0] == "api" and len(parts) > 3:
            self._api(parts[1:], body)
        else:
            self._resolve(parts, body, cut=fault is not None and fault.cut)

    def _api(self, parts: list[str], body: bool) -> None:
        kind, name, rest = parts[0], "/".join(parts[1:3]), parts[3:]
        repository = self.server.hub.repositories.get((kind, name))
        if repository is None:
            self._missing("RepoNotFound", body)
            return
        commit = repository.commit(rest[1] if len(rest) > 1 else "main")
        if commit is None:
            self._missing("RevisionNotFound", body)
            return
        files = repository.commits[commit]
        if rest[:1] == ["tree"]:
            self._json(list(_tree(files, "/".join(rest[2:]))), body)
        else:
            siblings = [{"rfilename": path} for path in files]
            self._json({"id": name, "sha": commit, "siblings": siblings, "private": False}, body)

    def _resolve(self, parts: list[str], body: bool, cut: bool) -> None:
        kind = "datasets" if parts[0] == "datasets" else "models"
        parts = parts[1:] if kind == "datasets" else parts
        repository = self.server.hub.repositories.get((kind, "/".join(parts[:2])))
        commit = repository.commit(parts[3]) if repository and len(parts) > 3 else None
        content = repository.commits[commit].get("/".join(parts[4:])) if repository and commit else None
        if content is None or commit is None:
            self._missing("EntryNotFound", body)
            return
        headers = {"ETag": f'"{_sha(content)}"', "X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        wanted = self.headers.get("Range")
        if wanted is None:
            self._send(200, content, body, headers, cut)
            return
        first, _, last = wanted.removeprefix("bytes=").partition("-")
        part = content[int(first) : int(last or len(content) - 1) + 1]
        headers["Content-Range"] = f"bytes {first}-{int(first) + len(part) - 1}/{len(content)}"
        self._send(206, part, body, headers, cut)

    def _json(self, record: object, body: bool) -> None:
        self._send(200, json.dumps(record).encode(), body, {"Content-Type": "application/json"})

    def _missing(self, code: str, body: bool) -> None:
        self._send(404, b"", body, {"X-Error-Code": code})

    def _send(
        self, status: int, content: bytes, body: bool, headers: dict[str, str] | None = None, cut: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if body:
            self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.close_connection = True


def _tree(files: dict[str, bytes], folder: str) -> Iterator[dict[str, object]]:
    """The entries directly in a folder, folders included."""
    prefix = f"{folder}/" if folder else ""
    folders: set[str] = set()
    for path, content in files.items():
        if not path.startswith(prefix):
            continue
        inner, _, below = path.removeprefix(prefix).partition("/")
        if not below:
            sha = _sha(content)
            lfs = {"oid": sha, "size": len(content), "pointerSize": 130}
            yield {"type": "file", "oid": sha[:40], "size": len(content), "path": path, "lfs": lfs}
        elif inner not in folders:
            folders.add(inner)
            yield {"type": "directory", "oid": "0" * 40, "size": 0, "path": prefix + inner}


def _sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
