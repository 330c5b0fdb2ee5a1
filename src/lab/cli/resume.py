"""`lab resume`: the next attempt of a run that ended early, in the same directory."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def resume(
    run: Annotated[
        str,
        typer.Argument(
            help="A run's id, the start of it, latest, an experiment, a tag, or a path.", autocompletion=completion.runs
        ),
    ] = "latest",
    as_recorded: Annotated[
        bool, typer.Option("--as-recorded", help="Use the experiment and code kept in the run, whatever changed since.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the run's id.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Go on with a run from its last checkpoint.

    From the start when it has none. Refused when the experiment, the data or the code would be another, naming what
    differs.
    """
    from lab.cli import run_flow, run_view
    from lab.cli.output import warn
    from lab.launch import resume, track, variables
    from lab.plugins import load as load_plugins
    from lab.runs.find import find
    from lab.settings import read_settings

    settings = read_settings()
    plugins = load_plugins(settings)
    resumption = resume.prepare(find(run, settings), settings, plugins, as_recorded=as_recorded)
    trackers = track.wanted(resumption.experiment, plugins, warn)
    directory, experiment = resumption.run, resumption.experiment
    view = run_view.view(directory, run_flow.planned_steps(experiment), quiet=quiet or as_json)
    known = variables.variables(settings)
    job, backend, store = resumption.job, resumption.backend, settings.store_folder
    with resume.claim(directory):
        resume.begin(resumption)
        view.notice(resume.described(resumption))
        code = run_flow.follow(directory, job, backend, view, trackers, known, store, quiet=quiet, as_json=as_json)
    raise typer.Exit(code)
