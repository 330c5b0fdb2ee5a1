"""The whole program of a Pod that is only there to be measured; sent as text, so it needs Python and nothing else.

It says who it is, swallows uploads, serves a range, and tries one way to stop its own machine.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

BOOT = secrets.token_hex(8)
BEGAN = time.monotonic()
BLOB = bytes(range(256)) * 4096
tried: dict[str, str] = {}


def filled(text: str) -> str:
    """Put the machine's variables where `{NAME}` stands."""
    for name, value in os.environ.items():
        text = text.replace("{" + name + "}", value)
    return text


def stop(way: dict[str, Any]) -> None:
    """Try one way; what it says is kept, in case it does not work."""
    try:
        if way["argv"]:
            done = subprocess.run([filled(word) for word in way["argv"]], capture_output=True, text=True, timeout=60)
            tried["answer"] = f"exit {done.returncode}: {(done.stdout + done.stderr)[-500:]}"
            return
        headers = {name: filled(value) for name, value in way["headers"].items()}
        body = filled(way["body"]).encode()
        request = urllib.request.Request(filled(way["url"]), body, headers, method=way["method"])
        with urllib.request.urlopen(request, timeout=60) as answer:
            tried["answer"] = f"{answer.status}: {answer.read(500)!r}"
    except Exception as error:
        tried["answer"] = f"{type(error).__name__}: {error}"


def gpus() -> list[str]:
    """What the driver lists."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line for line in listed.stdout.splitlines() if line.startswith("GPU ")]


class Handler(BaseHTTPRequestHandler):
    """Five questions, for the holder of the token only."""

    protocol_version = "HTTP/1.1"

    def allowed(self) -> bool:
        """Whether the caller has the token; the rest of the world learns nothing."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if hmac.compare_digest(hashlib.sha256(token.encode()).hexdigest(), os.environ["LAB_TOKEN_SHA256"]):
            return True
        self.answer(401, {"service": "lab-probe"})
        return False

    def answer(self, status: int, record: dict[str, Any]) -> None:
        """Send JSON that nobody keeps."""
        self.send(status, json.dumps(record).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Send bytes."""
        self.send_response(status)
        for name, value in {
            "Cache-Control": "no-store, no-transform",
            "Content-Length": str(len(body)),
            **headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """Who are you, what did the stop say, and a piece of the blob."""
        if not self.allowed():
            return
        if self.path.startswith("/blob"):
            self.piece()
        elif self.path == "/tried":
            self.answer(200, tried)
        else:
            uptime = time.monotonic() - BEGAN
            self.answer(200, {"nonce": os.environ["LAB_NONCE"], "boot_id": BOOT, "gpus": gpus(), "uptime": uptime})

    def piece(self) -> None:
        """Honour a Range that arrives; one that was lost on the way cannot be."""
        first, _, last = self.headers.get("Range", "").removeprefix("bytes=").partition("-")
        if not first:
            self.send(200, BLOB, {"Content-Type": "application/octet-stream"})
            return
        begin, end = int(first), int(last)
        span = f"bytes {begin}-{end}/{len(BLOB)}"
        self.send(206, BLOB[begin : end + 1], {"Content-Type": "application/octet-stream", "Content-Range": span})

    def do_PUT(self) -> None:
        """Swallow an upload and say what arrived."""
        if not self.allowed():
            return
        left, digest, got = int(self.headers["Content-Length"]), hashlib.sha256(), 0
        while left and (data := self.rfile.read(min(left, 1 << 20))):
            digest.update(data)
            left, got = left - len(data), got + len(data)
        self.answer(200, {"bytes": got, "sha256": digest.hexdigest()})

    def do_POST(self) -> None:
        """Try one way to stop this machine."""
        if not self.allowed():
            return
        way = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        tried.clear()
        threading.Thread(target=stop, args=(way,), daemon=True).start()
        self.answer(202, {})

    def log_message(self, format: str, *args: object) -> None:
        """Stay quiet."""


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", int(os.environ["LAB_PORT"])), Handler).serve_forever()
