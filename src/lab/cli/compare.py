"""`lab compare`: what may be said about two runs or more."""

from __future__ import annotations

from typing import Annotated

import typer

from lab.cli import completion


def compare(
    runs: Annotated[
        list[str], typer.Argument(help="Two runs or more; the first is the reference.", autocompletion=completion.runs)
    ],
    only_changed: Annotated[bool, typer.Option("--only-changed", help="Leave out what is the same.")] = False,
    require: Annotated[
        str, typer.Option(help="Exit 3 unless these are comparable, or within limits: loss,speed,memory.")
    ] = "",
    fail_if: Annotated[
        list[str] | None, typer.Option(help="Exit 4 when a figure moved this far: speed:-3%, loss:+0.02, memory:+5%.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
    as_markdown: Annotated[bool, typer.Option("--md", help="Print Markdown.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="Print one self-contained HTML page.")] = False,
) -> None:
    """Say what may be compared between runs, and the figures.

    Verdict first, figures second, what to type next last.
    """
    from lab.cli import compare_view
    from lab.compare import comparison, facts, gates
    from lab.errors import UsageError
    from lab.runs.find import as_written, find
    from lab.settings import read_settings

    if as_json + as_markdown + as_html > 1:
        raise UsageError("Give one of --json, --md and --html.")
    if len(runs) < 2:
        raise UsageError("lab compare needs two runs or more.", "`lab runs` lists them.")
    wanted, bounds = gates.questions(require), [gates.bound(text) for text in fail_if or ()]
    settings = read_settings()
    result = comparison.compare([facts.read(find(run, settings, as_written)) for run in runs])
    form = "json" if as_json else "md" if as_markdown else "html" if as_html else "text"
    compare_view.show(result, form, only_changed=only_changed)
    gates.require(result, wanted)
    gates.fail_if(result, bounds)
