"""Fenland's answers in lab's words: boxes as machines, kinds as candidates, cents a minute as dollars an hour."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from lab.rental import Candidate, Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.rental import Status

PHASES: dict[str, Status] = {
    "queued": "starting",
    "pulling": "starting",
    "up": "running",
    "parked": "stopped",
    "broken": "failed",
    "dropped": "terminated",
}


def machine(box: dict[str, Any]) -> Machine:
    """Raises `KeyError` when the answer lacks what names a box; a price that cannot be read is None, never 0."""
    data = box.get("data") or {}
    return Machine(
        id=str(box["box"]),
        name=box["label"],
        status=PHASES.get(box["phase"], "unknown"),
        status_text=box["phase"],
        dollars_per_hour=dollars_per_hour(box.get("cents_per_minute")),
        gpu=box.get("model"),
        gpus=box.get("cards"),
        image=box.get("image"),
        mount_path=data.get("path"),
        volume_gb=data.get("gib"),
        environment={str(name): str(value) for name, value in box.get("vars", ())},
        data_center=box.get("site"),
        created=datetime.fromtimestamp(box["since"] / 1000, UTC).isoformat() if "since" in box else None,
    )


def candidates(kinds: list[dict[str, Any]], sites: tuple[str, ...]) -> Iterator[Candidate]:
    """One for each site of each kind that has some free and a price."""
    for kind in kinds:
        price = dollars_per_hour(kind.get("cents_per_minute"))
        for site in kind["sites"]:
            if price is not None and kind["free"] > 0 and (not sites or site in sites):
                yield Candidate(
                    gpu=kind["model"],
                    dollars_per_hour=price,
                    gpus=kind["cards"],
                    data_center=site,
                    availability=f"{kind['free']} free",
                )


def dollars_per_hour(cents_per_minute: object) -> float | None:
    """Of "1.25" cents a minute; None for what is no price."""
    try:
        cents = Decimal(str(cents_per_minute))
    except InvalidOperation:
        return None
    return float(cents * 60 / 100) if cents.is_finite() and cents >= 0 else None
