"""`lab check`: everything about an experiment that can be known before any work."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def check(
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
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Check an experiment and show what it resolves to."""
    from lab.cli import experiment_view
    from lab.cli.output import print_json
    from lab.experiment import load
    from lab.plugins import load as load_plugins
    from lab.settings import read_settings

    settings = read_settings()
    plugins = load_plugins(settings)
    loaded = load(experiment, settings.experiments_folder, set_ or ())
    checked = plugins.check(loaded.experiment, loaded.where)
    record = experiment_view.record(loaded, checked, plugins)
    if as_json:
        print_json(record)
    else:
        experiment_view.show(record)
