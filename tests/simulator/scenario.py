"""How one Pod will fare: the timeline of its boot, and everything that goes wrong with it on its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass
class Scenario:
    """Times are simulated seconds. The simulator's usual scenario holds unless its queue has one for the next Pod."""

    provisioning: float = 4.0
    starting: float = 12.0
    running_at_once: bool = False
    """Say RUNNING from the start, as the service was seen to do long before anything runs."""
    route: float = 8.0
    """After the container's start, the proxy answers 404 for so long."""
    silent_route: float = 0.0
    """After that it answers 502 for so long, however soon the container listens."""
    stuck: Literal["PROVISIONING", "STARTING"] | None = None
    ends: Literal["ERROR", "EXITED", "TERMINATED"] | None = None
    """What becomes of it by itself, `ends_after` its creation."""
    ends_after: float = 0.0
    silent: bool = False
    """RUNNING, but its container never runs."""
    system_log: list[str] = field(default_factory=list)
    get_lag: float = 0.0
    list_lag: float = 0.0
    linger: float = 0.0
    """After deletion it is listed as TERMINATED for so long."""
    gpus: int | None = None
    """How many GPUs its container really sees; None: as many as asked for."""
    gpus_on_start: int | None = None
    """The same after a stop and a start."""
    restart: float = 17.0
    """How long after the main process has ended its container is started again."""
    stops_ignored: int = 0
    deletes_ignored: int = 0
    """So many DELETEs answer 204, hide the Pod for `hidden` seconds, and leave it alive."""
    hidden: float = 10.0
    stale_route: float = 0.0
    """After a start the proxy repeats the old boot's answers for so long."""
    cost: float | None = None
    """The rate per hour, instead of the list price."""
    drop_mounts: bool = False
    """Forget the mounts that were asked for."""

    @classmethod
    def of(cls, changes: dict[str, Any]) -> Scenario:
        """From plain JSON."""
        return cls(**changes)
