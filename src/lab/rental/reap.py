"""Orphans are deleted with proof, each as a rental of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.contracts import Receipt
from lab.errors import StillBilling
from lab.rental.facts import State
from lab.rental.survey import ELSEWHERE, ORPHAN, survey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.contracts import Resource
    from lab.rental.backend import RentedBackend


def reap(
    backend: RentedBackend, machine_id: str | None = None, any_project: bool = False
) -> Sequence[tuple[str, State]]:
    """Delete orphans with proof, or the one named; each with the state that it was brought to."""
    allowed = (ORPHAN, ELSEWHERE) if any_project else (ORPHAN,)
    chosen = [row for row in survey(backend).resources if row.state in allowed and machine_id in (None, row.handle)]
    return [(row.handle, _reap(backend, row)) for row in chosen]


def _reap(backend: RentedBackend, row: Resource) -> State:
    """End one orphan as a rental of its own, so that what is done to it is on disk before it is done."""
    run_id = row.run_id or f"{ORPHAN}-{row.handle}"
    if row.run_id is None:
        _adopt(backend, run_id, row)
    try:
        backend.terminate(Receipt(backend.provider.name, run_id, row.handle))
    except StillBilling as error:
        backend.say(str(error))
    return backend.facts(run_id).state


def _adopt(backend: RentedBackend, run_id: str, row: Resource) -> None:
    journal = backend.journal(run_id)
    if journal.exists():
        return
    journal.create()
    known = {
        "provider": backend.provider.name,
        "account": backend.provider.account(),
        "run_path": str(journal.folder / "no-run"),
        "machine_id": row.handle,
        "name": row.detail.get("name"),
        "dollars_per_hour": row.dollars_per_hour,
        "then": "end",
    }
    journal.append(1, State.DELETING, "an orphan shall be deleted", known, {})
