"""`lab experiments`: which experiments there are, and what one says without asking any plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.cli import completion, groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.settings import Settings

group = groups.new("Experiments: the TOML files that runs execute.")

ROOMY = 110
"""In fewer columns a description, whole, says more than the names of what changes."""

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@group.command("list")
def list_experiments(as_json: Json = False) -> None:
    """List the experiments, each below the one that it extends."""
    from lab.cli.output import near, plain, print_json, show, table, terminal_width
    from lab.experiment.finding import NO_PROJECT
    from lab.settings import read_settings

    settings = read_settings()
    rows = [_row(name, settings) for name in _names(settings)]
    if as_json:
        print_json(rows)
        return
    if not rows:
        show(f"There is no experiment in {near(settings.experiments_folder)}.")
        if not settings.experiments_folder.is_dir():
            show(NO_PROJECT)
        return
    roomy = (terminal_width() or ROOMY) >= ROOMY
    changing = ("CHANGES",) if roomy else ()
    listing = table(
        "EXPERIMENT", *changing, "DESCRIPTION", whole=("EXPERIMENT",), cut=("DESCRIPTION",) if roomy else ()
    )
    for depth, row in _tree(rows, None):
        name = plain("  " * depth + row["name"], style="red" if row["fault"] else "bold")
        changes = ", ".join(dict.fromkeys(change.partition(".")[0] for change in row["changes"]))
        about = plain(row["description"])
        if row["fault"]:
            about = plain(f"broken: {near(row['fault'])}", style="red")
        listing.add_row(name, *(plain(changes) for _ in changing), about)
    show(listing)


@group.command("show")
def show_experiment(
    experiment: Annotated[
        str,
        typer.Argument(help="Name of an experiment, or path of its TOML file.", autocompletion=completion.experiments),
    ],
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change one key, as optimizer.clip=0.5.", autocompletion=completion.keys
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show one experiment as it resolves; no plugin is asked."""
    from lab.cli import experiment_view
    from lab.cli.output import print_json
    from lab.experiment import load
    from lab.settings import read_settings

    loaded = load(experiment, read_settings().experiments_folder, set_ or ())
    record = experiment_view.record(loaded, loaded.experiment)
    if as_json:
        print_json(record)
    else:
        experiment_view.show(record)


def _names(settings: Settings) -> list[str]:
    from lab.experiment import listed

    return listed(settings.experiments_folder)


def _row(name: str, settings: Settings) -> dict[str, Any]:
    """One experiment in the listing; a broken one is listed with its fault."""
    from lab.errors import UsageError
    from lab.experiment import load

    row: dict[str, Any] = {
        "name": name,
        "extends": None,
        "group": None,
        "description": "",
        "changes": [],
        "fault": None,
    }
    try:
        loaded = load(name, settings.experiments_folder)
    except UsageError as error:
        return {**row, "fault": " ".join(str(error).split())}
    last = loaded.declarations[-1] if loaded.declarations else None
    return {
        **row,
        "extends": last.base if last else None,
        "group": loaded.experiment.group,
        "description": loaded.experiment.description,
        "changes": [change.key for change in last.changes] if last else [],
        "file": str(loaded.files[0]),
    }


def _tree(rows: Sequence[dict[str, Any]], parent: str | None, depth: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """Children below their parent; one whose parent is not listed stands at the root."""
    listed = {row["name"] for row in rows}
    for row in rows:
        above = row["extends"] if row["extends"] in listed and row["extends"] != row["name"] else None
        if above == parent:
            yield depth, row
            yield from _tree(rows, row["name"], depth + 1)
