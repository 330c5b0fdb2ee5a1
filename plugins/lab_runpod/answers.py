"""Keeps the service's raw answers as files that tests can replay: nothing secret, and nothing about strangers' Pods."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lab.runs.records import write_json

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

KEPT_HEADERS = (
    "content-type",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "x-request-id",
    "allow",
    "server",
    "sunset",
)
LONGEST_BODY = 200_000


class Answers:
    """An httpx hook: every answer that passes becomes a numbered file."""

    def __init__(self, folder: Path, secret: str) -> None:
        self.folder = folder
        self.secret = secret
        self.pod_id = ""
        self._count = 0
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, response: httpx.Response) -> None:
        """Write one answer down. A stream that never ends is none."""
        if response.headers.get("content-type", "").startswith("text/event-stream"):
            return
        response.read()
        self._count += 1
        name = f"{self._count:03d}-{response.request.method.lower()}-{response.status_code}.json"
        record = {
            "method": response.request.method,
            "path": response.request.url.path,
            "status": response.status_code,
            "headers": {key: value for key, value in response.headers.items() if key.lower() in KEPT_HEADERS},
            "body": self._body(response),
        }
        write_json(self.folder / name, json.loads(json.dumps(record).replace(self.secret, "REMOVED")))

    def _body(self, response: httpx.Response) -> Any:
        try:
            body = response.json()
        except ValueError:
            return response.text[:LONGEST_BODY]
        if isinstance(body, dict) and isinstance(body.get("pods"), list):
            ours = [pod for pod in body["pods"] if isinstance(pod, dict) and pod.get("id") == self.pod_id]
            return {**body, "pods": ours, "other_pods": len(body["pods"]) - len(ours)}
        return body
