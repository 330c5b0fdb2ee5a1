"""`lab data`: make token caches, look into them, and list what the store holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lab.cli import completion, groups

if TYPE_CHECKING:
    from lab.data.cache import TokenCache
    from lab.experiment import Experiment
    from lab.runs.records import Record
    from lab.settings import Settings

group = groups.new("Data: prepare token caches and look into them.")

Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change one key, as data.train_tokens=50_000.",
        autocompletion=completion.keys,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@group.command("list")
def list_caches(as_json: AsJson = False) -> None:
    """List the token caches of this project's store."""
    from lab.cli import data_view
    from lab.cli.output import print_json
    from lab.data.cache import stored
    from lab.settings import read_settings

    caches = stored(read_settings().store_folder)
    if as_json:
        print_json(caches)
    else:
        data_view.show_caches(caches)


@group.command()
def prepare(
    experiment: Annotated[
        str | None,
        typer.Argument(help="Name of an experiment, or path of its TOML file.", autocompletion=completion.experiments),
    ] = None,
    set_: Overrides = None,
    run: Annotated[
        str | None, typer.Option("--run", metavar="DIR", help="Prepare for this run directory, and record it there.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make an experiment's token cache, or verify it."""
    from lab.cli import data_view
    from lab.cli.output import print_json
    from lab.data.prepare import manifest_for_run
    from lab.errors import UsageError
    from lab.settings import read_settings

    if (experiment is None) == (run is None):
        raise UsageError("Give either the name of an experiment or --run DIR.")
    settings = read_settings()
    if run is not None:
        _prepare_run(run, settings)
        return
    assert experiment is not None
    resolved = _loaded(experiment, set_ or (), settings)
    cache = _prepared(resolved, settings)
    if as_json:
        print_json(manifest_for_run(cache))
    else:
        data_view.show_prepared(resolved.name, cache)


@group.command()
def inspect(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="NAME|RUN", help="An experiment, or a run.", autocompletion=completion.experiments_and_runs
        ),
    ],
    set_: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Show what a token cache holds.

    Counts, document lengths, packing and the first documents.
    """
    from lab.cli import data_contents, data_view
    from lab.cli.output import print_json
    from lab.experiment import names
    from lab.settings import read_settings

    settings = read_settings()
    if reference in names(settings.experiments_folder) or reference.endswith(".toml"):
        record = data_contents.of_experiment(_loaded(reference, set_ or (), settings), settings)
    else:
        record = data_contents.of_run(reference, settings)
    if as_json:
        print_json(record)
    else:
        data_view.show_inspected(record)


def _prepare_run(path: str, settings: Settings) -> None:
    """The prepare stage: the run's config decides, and the run gets its manifest and statistics."""
    from pathlib import Path

    from pydantic import ValidationError

    from lab.cli import data_view
    from lab.data.prepare import manifest_for_run
    from lab.data.stats import Packing, stats
    from lab.errors import LabError
    from lab.experiment import Experiment
    from lab.runs.directory import RunDirectory
    from lab.runs.records import read_json, write_json

    run = RunDirectory.open(Path(path))
    try:
        experiment = Experiment.model_validate((read_json(run.config) or {}).get("experiment"))
    except ValidationError as error:
        raise LabError(f"{run.config}: holds no experiment of this version of lab: {error}") from error
    if experiment.data is None:
        typer.echo(f"{experiment.name} has no [data]: nothing to prepare.")
        return
    cache = _prepared(experiment, settings, read_json(run.data_manifest))
    write_json(run.data_manifest, manifest_for_run(cache))
    write_json(run.data_stats, stats(cache, Packing.of(experiment.data.context, experiment.batch, experiment.seed)))
    data_view.show_prepared(experiment.name, cache)


def _prepared(experiment: Experiment, settings: Settings, recorded: Record | None = None) -> TokenCache:
    from lab.cli import data_view
    from lab.data.prepare import data_of, prepare
    from lab.plugins import load

    data = data_of(experiment)
    source = load(settings).build("source", data.source)
    with data_view.progress() as report:
        return prepare(data, source, settings.store_folder, report, recorded=recorded)


def _loaded(name: str, overrides: list[str] | tuple[str, ...], settings: Settings) -> Experiment:
    from lab.experiment import load
    from lab.plugins import load as load_plugins

    loaded = load(name, settings.experiments_folder, overrides)
    return load_plugins(settings).check(loaded.experiment, loaded.where)
