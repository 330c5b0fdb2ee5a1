"""`lab ui`: the store of all mirrored runs in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def ui(
    run: Annotated[
        str | None,
        typer.Argument(
            help="Open this run's page: an id, the start of it, latest, an experiment, a tag, or a path.",
            autocompletion=completion.runs,
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the page is served on this machine.")] = 5000,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Show all mirrored runs in MLflow's page until Ctrl-C."""
    from lab.cli.ui_server import serve
    from lab.runs.find import find
    from lab.settings import read_settings

    settings = read_settings()
    serve(port, settings, None if run is None else find(run, settings), open_page=open_page)
