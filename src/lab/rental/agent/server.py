"""The agent's HTTP/1.1 face: a few small requests, each authorized by the run's token, each safe to repeat."""

from __future__ import annotations

import hashlib
import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import parse_qs, urlsplit

from .answers import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from .desk import Desk

    Answer = dict[str, Any] | None

SERVICE = "lab-agent"
SOCKET_SECONDS = 60.0
MOST_JSON_BYTES = 8 * 1024 * 1024
MOST_CHUNK_BYTES = 16 * 1024 * 1024
UPLOAD = re.compile(r"^/v1/upload/([0-9a-f]{64})(?:/(\d{1,6}|commit))?$")


class Server(ThreadingHTTPServer):
    """One thread a connection; none of them keeps the process alive or brings it down."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, address: tuple[str, int], desk: Desk) -> None:
        super().__init__(address, Handler)
        self.desk = desk

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke off is nobody's concern."""


class Handler(BaseHTTPRequestHandler):
    """Reads one request, asks the desk, answers in JSON or with bytes."""

    protocol_version = "HTTP/1.1"
    server_version = SERVICE
    sys_version = ""
    timeout = SOCKET_SECONDS
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the container's log is for what matters."""

    def do_GET(self) -> None:
        """Read something."""
        self._handle(self._get)

    def do_POST(self) -> None:
        """Ask for something to be done."""
        self._handle(self._post)

    def do_PUT(self) -> None:
        """Bring a chunk."""
        self._handle(self._put)

    def _handle(self, act: Callable[[], Answer]) -> None:
        desk = self.server.desk
        self._unread = int(self.headers.get("Content-Length") or 0)
        try:
            if not desk.knows(self.headers.get("Authorization", "")):
                raise Refused("unauthorized", "this machine belongs to another run")
            desk.life.renew()
            answer = act()
        except Refused as refused:
            self._answer(refused.status, {"error": refused.code, "message": str(refused)})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._answer(422, {"error": "invalid", "message": f"{type(error).__name__}: {error}"})
        except OSError as error:
            self.close_connection = True
            if not isinstance(error, (ConnectionError, TimeoutError)):
                self._answer(500, {"error": "invalid", "message": str(error)})
        else:
            if answer is not None:
                self._answer(200, answer)

    def _get(self) -> Answer:
        url = urlsplit(self.path)
        upload = UPLOAD.match(url.path)
        if url.path == "/v1/hello":
            return self.server.desk.hello({})
        if upload and upload.group(2) is None:
            return {"present": self.server.desk.uploads.present(upload.group(1))}
        if url.path == "/v1/blob":
            self._blob(parse_qs(url.query))
            return None
        raise Refused("gone", "there is nothing here")

    def _post(self) -> Answer:
        path, desk = urlsplit(self.path).path, self.server.desk
        acts: dict[str, Callable[[dict[str, Any]], Answer]] = {
            "/v1/limits": desk.limits, "/v1/variables": desk.variables, "/v1/job": desk.start,
            "/v1/job/stop": desk.stop, "/v1/poll": desk.poll, "/v1/pin": desk.pin,
            "/v1/manifest": desk.manifest, "/v1/acknowledge": desk.acknowledge,
        }  # fmt: skip
        body = self._json()
        upload = UPLOAD.match(path)
        if upload and upload.group(2) == "commit":
            desk.uploads.commit(upload.group(1), int(body["size"]), into_run=body.get("into") == "run")
            return {}
        if path not in acts:
            raise Refused("gone", "there is nothing here")
        return acts[path](body)

    def _put(self) -> Answer:
        upload = UPLOAD.match(urlsplit(self.path).path)
        if not upload or not (upload.group(2) or "").isdigit():
            raise Refused("gone", "there is nothing here")
        if self._unread > MOST_CHUNK_BYTES:
            raise Refused("too-large", "a chunk is at most 16 MiB")
        length, self._unread = self._unread, 0
        self.close_connection = True  # kept open again below, once the whole body was read
        self.server.desk.uploads.put(
            upload.group(1), int(upload.group(2)), self.rfile, length, self.headers.get("X-Chunk-SHA256", "")
        )
        self.close_connection = self.headers.get("Connection", "").lower() == "close"
        return {}

    def _json(self) -> dict[str, Any]:
        if self._unread > MOST_JSON_BYTES:
            raise Refused("too-large", "the request is too large")
        length, self._unread = self._unread, 0
        body = json.loads(self.rfile.read(length) or b"{}")
        if not isinstance(body, dict):
            raise Refused("invalid", "the request is not a JSON object")
        return body

    def _answer(self, status: int, answer: dict[str, Any]) -> None:
        """Send JSON with its own hash, so that no proxy's page and no cut answer is ever taken for it."""
        body = json.dumps({"service": SERVICE, **answer}).encode()
        if self._unread:
            self.close_connection = True  # the rest of the request would be taken for the next one
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Body-SHA256", hashlib.sha256(body).hexdigest())
        self._finish(len(body))
        self.wfile.write(body)

    def _blob(self, query: dict[str, list[str]]) -> None:
        """Send bytes straight from the disk: nothing of the file passes through this process's memory."""
        path, offset, length = query["path"][0], int(query["offset"][0]), int(query["length"][0])
        content, size = self.server.desk.results.open(path)
        with content:
            if not 0 <= offset <= size or length < 0:
                raise Refused("invalid", "the range is outside the file")
            count = min(length, size - offset, MOST_CHUNK_BYTES)
            self.send_response(200)
            self.send_header("Content-Type", "application/octet-stream")
            self._finish(count)
            self._send(content, offset, count)

    def _send(self, content: BinaryIO, offset: int, count: int) -> None:
        self.wfile.flush()
        sent = 0
        try:
            if count:
                sent = self.connection.sendfile(content, offset, count)  # waits for a slow reader, unlike os.sendfile
        except OSError:
            pass
        self.close_connection = self.close_connection or sent < count

    def _finish(self, length: int) -> None:
        self.send_header("Content-Length", str(length))
        self.send_header("Cache-Control", "no-store, no-transform")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
