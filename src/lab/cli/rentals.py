"""`lab rentals`: the rented machines of this project, from wherever and whenever one looks."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion
from lab.cli.groups import new

group = new("Rented machines: what lives, what it costs, how to end it.")

Reference = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="Id of a run, a machine's id, or a path of the rental.", autocompletion=completion.runs
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@group.command("list")
def list_(as_json: AsJson = False) -> None:
    """List every machine, orphans first.

    Exit code 5 when one lives that no run accounts for. Rentals whose controller vanished are put in order on the way.
    """
    from lab.cli import rentals_finding, rentals_view
    from lab.errors import StillBilling

    surveys = rentals_finding.surveys()
    rentals_view.show_list(surveys, as_json=as_json)
    trouble = rentals_view.trouble(surveys)
    if trouble:
        raise StillBilling(trouble, "End orphans with: lab rentals reap. See a run with: lab rentals monitor RUN")


@group.command()
def monitor(run: Reference) -> None:
    """Follow a run on its machine to its end.

    Then its results are collected and the machine is given back. Ctrl-C leaves the run alone.
    """
    from lab.cli import rentals_finding, rentals_following

    raise typer.Exit(rentals_following.follow(rentals_finding.find(run)))


@group.command()
def collect(run: Reference) -> None:
    """Bring results home, verified, then delete the machine.

    A stopped machine is started for that, which costs as long as it takes.
    """
    from lab.cli import rentals_finding, rentals_following

    raise typer.Exit(rentals_following.collect(rentals_finding.find(run)))


@group.command()
def stop(run: Reference) -> None:
    """Let the job save, then stop the machine.

    Its disk is kept and still costs money, which is said.
    """
    from lab.cli import rentals_finding, rentals_view

    found = rentals_finding.find(run)
    found.backend.halt(found.receipt)
    rentals_view.say_standing(found)


@group.command()
def start(run: Reference) -> None:
    """Start a stopped machine; its job goes on.

    The job is run again, from the checkpoint that is on the machine's disk.
    """
    from lab.cli import rentals_finding, rentals_view

    found = rentals_finding.find(run)
    found.backend.start(found.receipt)
    rentals_view.say_standing(found)


@group.command()
def terminate(
    run: Reference,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even when results would be lost.")] = False,
) -> None:
    """Delete the machine, whatever is on it, with proof."""
    from lab.cli import rentals_finding, rentals_view

    found = rentals_finding.find(run)
    rentals_view.confirm_loss(found, yes=yes)
    found.backend.terminate(found.receipt)
    rentals_view.say_standing(found)


@group.command()
def reap(
    machine: Annotated[str | None, typer.Argument(help="Only this machine.")] = None,
    any_project: Annotated[
        bool, typer.Option("--any-project", help="Also machines that another project of lab made with this key.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete machines of lab that no run accounts for, with proof."""
    from lab.cli import rentals_finding, rentals_view

    rentals_view.reap(rentals_finding.backends(), machine, any_project=any_project, yes=yes)
