"""`lab ui`: the store of all mirrored runs in the browser."""

from __future__ import annotations

from typing import Annotated

import typer


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where the page is served on this machine.")] = 5000,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
) -> None:
    """Show all mirrored runs in MLflow's page until Ctrl-C."""
    from lab.cli.ui_server import serve
    from lab.settings import read_settings

    serve(port, read_settings(), open_page=open_page)
