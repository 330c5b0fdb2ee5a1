"""How rentals are shown, and what is asked before something is lost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from lab.cli.output import plain, print_json, table
from lab.cli.output import show as output
from lab.compare.formats import duration
from lab.errors import StillBilling, UsageError
from lab.rental.facts import State
from lab.rental.survey import ELSEWHERE, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.rentals_finding import Found
    from lab.contracts import Resource
    from lab.rental import RentedBackend
    from lab.rental.survey import Survey

COLOURS = {ORPHAN: "bold red", str(State.ATTENTION): "bold red", str(State.STOPPED): "yellow", ELSEWHERE: "dim"}


def show_list(surveys: Sequence[Survey], *, as_json: bool) -> None:
    """Print every machine, the ones that need somebody first."""
    rows = [row for survey in surveys for row in survey.resources]
    if as_json:
        print_json({"complete": all(survey.complete for survey in surveys), "rentals": rows})
        return
    if not rows:
        output(plain(_nothing(surveys)))
        return
    numbers = ("$/H", "COST", "AGE")
    listing = table("MACHINE", "STATE", "RUN", "GPU", *numbers, "", right=numbers, whole=("MACHINE", "STATE", "RUN"))
    for row in rows:
        listing.add_row(*_cells(row))
    output(listing)


def _nothing(surveys: Sequence[Survey]) -> str:
    if not surveys:
        return "Nothing was ever rented from here, and no cloud was asked."
    whole = all(survey.complete for survey in surveys)
    return "No rented machine." if whole else "No rented machine is known, but the listing is not complete."


def _cells(row: Resource) -> list[Any]:
    detail = row.detail
    dollars, age = detail.get("dollars"), detail.get("age_seconds")
    return [
        plain(row.handle),
        plain(row.state, COLOURS.get(row.state, "")),
        plain(row.run_id or detail.get("run")),
        plain(detail.get("gpu")),
        plain(f"{row.dollars_per_hour:.3f}"),
        plain(f"{dollars:.2f}" if isinstance(dollars, (int, float)) else None),
        plain(duration(age) if isinstance(age, (int, float)) else None),
        plain(detail.get("reason") or "", "dim"),
    ]


def trouble(surveys: Sequence[Survey]) -> str:
    """What a person must know: machines that no run accounts for, and listings that are not complete."""
    rows = [row for survey in surveys for row in survey.resources if row.state in (ORPHAN, str(State.ATTENTION))]
    lines = [
        f"{row.handle}: {row.state}, ${row.dollars_per_hour:.2f}/h {row.detail.get('console') or ''}" for row in rows
    ]
    more = "The listing is not complete, so more may live than is shown: "
    lines += [more + survey.trouble for survey in surveys if not survey.complete]
    return "\n".join(lines)


def say_standing(found: Found) -> None:
    """Say in one line what became of the machine."""
    facts = found.facts
    gone = " (it was already gone)" if facts.already_gone else ""
    price = ""
    if facts.state is State.STOPPED:
        daily = found.backend.provider.stopped_dollars_per_hour(facts.volume_gb or 0) * 24
        price = f"; its disk costs ${daily:.2f} a day until: lab rentals terminate {found.run_id}"
    output(plain(f"{found.run_id}: {facts.machine_id or 'no machine'}: {facts.state}{gone}{price}"))


def confirm_loss(found: Found, *, yes: bool) -> None:
    """Ask before results that are only on the machine are given up."""
    facts = found.facts
    if yes or not facts.holds_something or not facts.alive:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            f"{found.run_id}: its results are only on {facts.machine_id} and would be lost.",
            f"Fetch them with: lab rentals collect {found.run_id}. Give them up with --yes.",
        )
    typer.confirm(f"The results of {found.run_id} are only on {facts.machine_id}. Delete them?", abort=True)


def reap(backends: Sequence[RentedBackend], machine: str | None, *, any_project: bool, yes: bool) -> None:
    """Delete orphans after a question, and say of each what became of it."""
    from lab.rental.reap import reap as delete
    from lab.rental.survey import survey

    chosen = [
        (backend, row)
        for backend in backends
        for row in survey(backend).resources
        if row.state in ((ORPHAN, ELSEWHERE) if any_project else (ORPHAN,)) and machine in (None, row.handle)
    ]
    if not chosen:
        output(plain("Nothing to reap."))
        return
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Deleting machines needs a yes, and nobody is here to say it.", "Say it with --yes.")
        names = "\n".join(f"  {row.handle} {row.detail.get('name') or row.run_id}" for _, row in chosen)
        typer.confirm(f"{names}\nDelete?", abort=True)
    left = []
    for backend, row in chosen:
        for handle, state in delete(backend, row.handle, any_project):
            output(plain(f"{handle}: {state}"))
            left += [handle] if state is not State.DELETED else []
    if left:
        raise StillBilling(
            f"May still be billing: {', '.join(left)}", "Run `lab rentals reap` again, or end it by hand."
        )
