"""`lab report`: one page a run, one page for several together, and one for all."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 - typer reads the annotation
from typing import Annotated

import typer

from lab.cli import completion


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="One run, or several to compare; the first is the reference.", autocompletion=completion.runs
        ),
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    publish: Annotated[
        Path | None, typer.Option(help="Write what may be committed into this new folder, such as reports/NAME.")
    ] = None,
    index: Annotated[bool, typer.Option("--index", help="Write the page that lists all runs.")] = False,
) -> None:
    """Write a page with a run's figures and curves.

    One self-contained HTML file with everything behind them.
    """
    from lab.cli import output
    from lab.cli.report_pages import write_pages
    from lab.errors import UsageError
    from lab.settings import read_settings

    if not runs and not index:
        raise UsageError("lab report needs a run, or --index.", "`lab runs` lists them.")
    for path in write_pages(runs or [], publish, index=index, settings=read_settings()):
        output.show(output.plain(output.near(path)))
        page = path / "report.html" if path.is_dir() else path
    if open_page:
        typer.launch(page.as_uri())
