"""`lab run`: one experiment, executed once, followed to its end."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def run(
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
    backend: Annotated[
        str, typer.Option(help="Where it runs: local, or a plugin's.", autocompletion=completion.backends)
    ] = "local",
    backend_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the backend.")
    ] = None,
    max_price: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="The most that an hour of a rented machine may cost.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option(metavar="DOLLARS", help="The most that a rented run may cost.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Stop a rented machine at the end and keep its disk.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show plan, price and bundle; write nothing.")] = False,
    files: Annotated[bool, typer.Option("--files", help="List every file of the bundle in a dry run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before money is spent.")] = False,
    strict_environment: Annotated[
        bool, typer.Option("--strict-environment", help="Refuse a machine that differs from the declared environment.")
    ] = False,
    tag: Annotated[list[str] | None, typer.Option(metavar="TAG", help="Put a tag on the run.")] = None,
    bundle_mb: Annotated[int, typer.Option(min=1, help="How large the bundle of code may be.")] = 50,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the run's id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Run an experiment, on this machine or a rented one.

    Check, bundle, prepare, train, evaluate, collect. Ctrl-C once asks the run to finish its step and save; twice ends
    it at once.
    """
    from lab.cli import run_flow, run_plan, run_view
    from lab.cli.output import print_json, warn
    from lab.errors import Refused, UsageError
    from lab.launch import recording, track, variables
    from lab.launch.plan import backend_choice, plan
    from lab.plugins import load as load_plugins
    from lab.runs import tags
    from lab.settings import read_settings

    if files and not dry_run:
        raise UsageError("--files lists what would travel, so it needs --dry-run.", "Add --dry-run.")
    settings = read_settings()
    plugins = load_plugins(settings)
    renting = run_plan.renting(max_price=max_price, max_cost=max_cost, keep=keep)
    plugins.find("backend", backend)  # an unknown or empty name is told as one
    choice = backend_choice(backend, (*(backend_option or ()), *renting))
    planned = plan(experiment, set_ or (), settings, plugins, choice, bundle_mb * 1_000_000, dry=dry_run)
    tags.require_fit(tag or (), planned.secrets)
    trackers = track.wanted(planned.experiment, plugins, warn)
    if strict_environment and planned.differences:
        raise Refused("\n".join(run_plan.differing(planned)), "Leave out --strict-environment to run all the same.")
    if dry_run:
        plan_record = run_plan.record(planned, trackers)
        return print_json(plan_record) if as_json else run_plan.show(planned, trackers, files=files)
    run_plan.confirm(planned.quote, yes=yes)
    directory, job = recording.create(planned, tag or ())
    if not (quiet or as_json):
        run_plan.announce(planned, directory.id)
    view = run_view.view(directory, run_flow.planned_steps(planned.experiment), quiet=quiet or as_json)
    known = variables.variables(settings)
    store = settings.store_folder
    code = run_flow.follow(directory, job, planned.backend, view, trackers, known, store, quiet=quiet, as_json=as_json)
    raise typer.Exit(code)
