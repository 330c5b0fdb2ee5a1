"""What each request of the controller comes to, without a word about HTTP."""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

from . import growth, machine
from .answers import Refused
from .bundle import Uploads
from .results import Results

if TYPE_CHECKING:
    from .life import Life
    from .paths import Places
    from .work import Work


class Desk:
    """Everything that requests are about."""

    def __init__(self, nonce: str, token_sha256: str, places: Places, life: Life, work: Work, kills: int) -> None:
        self.nonce = nonce
        self.token_sha256 = token_sha256
        self.places = places
        self.life = life
        self.work = work
        self.uploads = Uploads(places)
        self.results = Results(places)
        self.gpus = machine.gpus()
        self.kills_before = kills
        self.acknowledged = False
        self.self_stop_notices: list[str] = []

    def knows(self, authorization: str) -> bool:
        """Whether the header carries this run's token; compared without giving its length or start away."""
        scheme, _, token = authorization.partition(" ")
        found = hashlib.sha256(token.strip().encode("utf-8", "replace")).hexdigest()
        return scheme.lower() == "bearer" and hmac.compare_digest(found, self.token_sha256)

    def hello(self, _: dict[str, Any]) -> dict[str, Any]:
        """Who this is."""
        return {
            "nonce": self.nonce,
            "boot_id": self.life.boot_id,
            "uptime_seconds": self.life.uptime(),
            "gpus": self.gpus,
            "disk_free_bytes": machine.disk_free(self.places.workspace),
            "boots": self.life.boots,
            "job": self.work.report(),
        }

    def limits(self, body: dict[str, Any]) -> dict[str, Any]:
        """A new term of life."""
        self.life.set_limits(float(body["lease_seconds"]), float(body["limit_seconds"]))
        return {}

    def variables(self, body: dict[str, Any]) -> dict[str, Any]:
        """Forwarded variables, kept in memory."""
        self.work.set_variables({str(name): str(value) for name, value in body["values"].items()})
        return {}

    def start(self, body: dict[str, Any]) -> dict[str, Any]:
        """The job's start."""
        return {"job": self.work.start(body)}

    def stop(self, body: dict[str, Any]) -> dict[str, Any]:
        """The wish that the job saves and ends."""
        self.work.stop(float(body["grace_seconds"]))
        return {}

    def poll(self, body: dict[str, Any]) -> dict[str, Any]:
        """One look at the job, its records and logs."""
        answer: dict[str, Any] = {
            "boot_id": self.life.boot_id,
            "uptime_seconds": self.life.uptime(),
            "job": self.work.report(),
            "notices": [*machine.notices(self.places.workspace, self.kills_before), *self.self_stop_notices],
        }
        if body.get("cursors") is not None:
            answer["grown"] = growth.look(self.places.run, body["cursors"], self.work.secrets)
            answer["replaced"] = growth.replaced(self.places.run)
        return answer

    def pin(self, body: dict[str, Any]) -> dict[str, Any]:
        """A file held as it is now."""
        return {"file": self.results.pin(str(body["path"]), str(body["version"]))}

    def manifest(self, body: dict[str, Any]) -> dict[str, Any]:
        """The frozen list of results."""
        if self.work.running:
            raise Refused("conflict", "the job is running")
        listing = self.results.manifest(body["patterns"], bool(body["fresh"]))
        if listing is None:
            return {"manifest": None}
        return {"manifest": {"files": listing["files"], "skipped": listing["skipped"]}}

    def acknowledge(self, _: dict[str, Any]) -> dict[str, Any]:
        """Everything is home."""
        self.acknowledged = True
        return {}
