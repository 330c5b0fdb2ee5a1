"""`lab runs`: what was run, how it stands, what it printed."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from lab.cli import completion
from lab.cli.groups import new
from lab.runs.status import Word

WORDS = get_args(Word)
group = new("Runs of this project: list, show, logs, stop, tag, rm, track.")

Run = Annotated[
    str,
    typer.Argument(
        help="A run's id, the start of it, latest, an experiment, a tag, a machine's id, or a path.",
        autocompletion=completion.runs,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@group.command("list")
def list_(
    newest: Annotated[int, typer.Option("--newest", "-n", min=1, help="How many of the newest to list.")] = 20,
    all_: Annotated[bool, typer.Option("--all", help="List every run.")] = False,
    status: Annotated[
        Word | None,
        typer.Option(metavar="STATUS", help=f"Only those that stand so: {', '.join(WORDS[:-1])} or {WORDS[-1]}."),
    ] = None,
    tag: Annotated[str | None, typer.Option(metavar="TAG", help="Only those with this tag.")] = None,
    where: Annotated[
        str | None, typer.Option(metavar="CONDITION", help="Only those for which it holds: 'loss<3.2 and gpu~H100'.")
    ] = None,
    sort: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The least first, with -FIELD the most; unknown last.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="FIELDS", help="What to show of each, such as run,loss,gpu.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, the newest last.

    A CONDITION compares fields with values by < <= > >= = != and ~ (contains, whatever the case), joined by and, or,
    not and parentheses; a value with blanks stands in quotes. Values may have a unit: took>1.5h, tokens_per_second>90k,
    mfu>=40%. A date compares as exactly as it is written: created>=2026-12. A value that is missing or NaN equals
    nothing and is less or more than nothing; FIELD=none and FIELD=nan find it.

    Fields: run, status, experiment, group, backend, gpu, created, steps, loss, evaluation, tokens_per_second, mfu,
    took, attempt, machine, reason, change, tag, note.
    """
    from lab.cli import runs_listing
    from lab.settings import read_settings

    wanted = runs_listing.Wanted(newest, all_, status, tag, where, sort, columns)
    runs_listing.show(wanted, read_settings(), as_json=as_json)


@group.command()
def show(
    run: Run = "latest",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Watch it until it has ended; exit 1 unless it completed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one run and what came out.

    What it was, how it stands, which files it has.
    """
    from lab.cli import runs_following, runs_view
    from lab.cli.output import print_json
    from lab.runs.find import find
    from lab.settings import read_settings

    found = find(run, read_settings())
    completed = runs_following.follow(found, quiet=as_json) if follow else True
    record = runs_view.record(found)
    if as_json:
        print_json(record)
    else:
        runs_view.show(found, record)
    if not completed:
        raise typer.Exit(1)


@group.command()
def logs(
    run: Run = "latest",
    stage: Annotated[
        str | None, typer.Option(metavar="STAGE", help="Only this stage's log.", autocompletion=completion.stages)
    ] = None,
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=1, help="Only the last lines of each log.")] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="As written, with each state of a progress bar.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print what the stages of a run wrote, in their order.

    Each line as a terminal shows it in the end: of a progress bar the last state.
    """
    from lab.cli import runs_logs
    from lab.runs.find import find
    from lab.settings import read_settings

    runs_logs.show(find(run, read_settings()), stage, lines, follow=follow, raw=raw, as_json=as_json)


@group.command()
def tag(
    run: Run,
    tags: Annotated[list[str] | None, typer.Argument(help="Tags to put on the run.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG", help="A tag to take off.")] = None,
    note: Annotated[str | None, typer.Option(help="A note to keep with the run; empty removes it.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put tags and a note on a run, or take them off."""
    from lab.cli.output import plain, print_json
    from lab.cli.output import show as output
    from lab.launch.variables import variables
    from lab.runs import tags as labels
    from lab.runs.find import find
    from lab.runs.secrets import Secrets
    from lab.settings import read_settings

    settings = read_settings()
    found = find(run, settings)
    secrets = Secrets(variables(settings))
    kept = labels.change(found, add=tags or (), remove=remove or (), note=note, secrets=secrets)
    if as_json:
        print_json({"run_id": found.id, "tags": kept.tags, "note": kept.note})
    else:
        output(plain(f"{found.id}: {', '.join(kept.tags) or 'no tags'}{f'; {kept.note}' if kept.note else ''}"))


@group.command()
def stop(
    run: Run,
    now: Annotated[bool, typer.Option("--now", help="End its processes at once, without saving.")] = False,
) -> None:
    """Ask a run to finish its step, save and end."""
    from lab.cli import runs_stopping
    from lab.plugins import load as load_plugins
    from lab.runs.find import find
    from lab.settings import read_settings

    settings = read_settings()
    runs_stopping.stop(find(run, settings), load_plugins(settings), now=now)


@group.command("rm")
def remove(
    runs: Annotated[
        list[str],
        typer.Argument(
            help="Runs to delete, each by id, the start of it, latest, a tag, or a path.",
            autocompletion=completion.runs,
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be deleted, and delete nothing.")] = False,
) -> None:
    """Delete runs with all their files; a run at work is refused."""
    from lab.cli import runs_removing
    from lab.runs.find import find
    from lab.settings import read_settings

    settings = read_settings()
    runs_removing.remove([find(name, settings) for name in runs], yes=yes, dry_run=dry_run)


@group.command()
def track(
    run: Run,
    to: Annotated[
        list[str],
        typer.Option(
            "--to", metavar="TRACKER", help="A tracker, such as mlflow or wandb.", autocompletion=completion.trackers
        ),
    ],
    live: Annotated[bool, typer.Option("--live", help="Go on until the run has ended.")] = False,
    as_json: AsJson = False,
) -> None:
    """Mirror a run into an experiment tracker, now or again.

    What is there already is not sent twice.
    """
    from lab.cli import runs_tracking
    from lab.plugins import load as load_plugins
    from lab.runs.find import find
    from lab.settings import read_settings

    settings = read_settings()
    runs_tracking.track_all(find(run, settings), to, load_plugins(settings), settings, live=live, as_json=as_json)
