"""How a comparison looks in the terminal, and in the forms that other programs read."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import astuple
from typing import TYPE_CHECKING

from lab.cli import output

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

    from lab.compare.answer import Comparison, Pair


STYLES = {"ok": "green", "+": "green", "-": "red", "x": "red", "!": "red bold", "~": "yellow"}
VERDICT_STYLES = {"comparable": "green", "within limits": "yellow", "not comparable": "red"}
DIFF_LINES = 60
FILES = 6
PIPED = 200
"""The longest line of words where there is no terminal."""
NARROW = 100
"""In fewer columns the difference is shown in percent alone: both values stand beside it."""


def show(comparison: Comparison, form: str, *, only_changed: bool) -> None:
    """Print the comparison in the wanted form."""
    if form == "json":
        output.print_json(comparison.record(only_changed=only_changed))
    elif form == "md":
        from lab.compare.markdown import markdown

        sys.stdout.write(markdown(comparison, only_changed=only_changed))
    elif form == "html":
        from lab.report.page import comparison_page

        sys.stdout.write(comparison_page(comparison, only_changed=only_changed))
    else:
        _text(comparison, only_changed)


def _text(comparison: Comparison, only_changed: bool) -> None:
    from lab.compare import changes, formats, plot, rows

    runs = output.table("", "run", "experiment", "status", whole=("run",))
    for place, run in enumerate(comparison.runs):
        runs.add_row(formats.letter(place), output.plain(run.id), output.plain(run.name), run.status)
    output.show(runs)
    for place, pair in enumerate(comparison.pairs, start=1):
        _pair(pair, place, only_changed)
    output.show("", output.plain(changes.LEGEND, "dim"))
    for line in rows.interval_lines(comparison):
        output.show(output.plain(line, "dim"))
    picture = plot.loss_over_tokens(comparison.runs)
    if picture:
        output.show("", output.plain(picture))
    output.show("")
    output.console().print(output.plain(f"Next: {comparison.next_command}", "bold"), soft_wrap=True)


def _pair(pair: Pair, place: int, only_changed: bool) -> None:
    from lab.compare import busy, formats, rows

    a, b = formats.letter(0), formats.letter(place)
    shared = busy.note({a: pair.a, b: pair.b})
    output.show("")
    for one in pair.judgements:
        names = ", ".join(check.name for check in one.because)
        heading = f"{a} and {b}  {one.question:<7}"
        verdict = _folded(f"{one.verdict}{f': {names}' if names else ''}", indent=len(heading))
        output.show(output.plain(heading, "bold") + output.plain(verdict, VERDICT_STYLES[str(one.verdict)]))
        if one.question == "speed" and shared:
            output.show(output.plain(f"{' ' * len(heading)}{shared}", "yellow"))
    output.show("")
    _differences(pair, a, b)
    checks = output.table("", "check", a, b, "note", whole=("", "check"))
    for row in rows.check_rows(pair, only_changed=only_changed):
        checks.add_row(*_cells(row.sign, row.name, row.a, row.b, row.note))
    output.show(checks if checks.row_count else rows.ALL_HOLD, "")
    figures = _figures(pair, place, only_changed)
    output.show(figures if figures.row_count else rows.NO_FIGURE[only_changed], "")
    output.show(*(output.plain(_folded(claim)) for claim in pair.claims if claim != shared))
    _code(pair)


def _folded(text: str, indent: int = 0) -> str:
    """Text that a terminal folds by itself; anywhere else lines stay so short that they can be read."""
    if output.terminal_width() is not None:
        return text
    begin = " " * indent
    lines = textwrap.wrap(
        f"{begin}{text}", PIPED, subsequent_indent=begin, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(lines)[indent:]


def _figures(pair: Pair, place: int, only_changed: bool) -> Table:
    from lab.compare import formats, rows

    a, b = formats.letter(0), formats.letter(place)
    narrow = (output.terminal_width() or NARROW) < NARROW
    moved = ("%",) if narrow else ("difference", "%")
    table = output.table("", "figure", a, b, *moved, "what it is worth", right=(a, b, *moved), whole=("", a, b, *moved))
    for one in rows.figure_rows(pair, place, only_changed=only_changed):
        change = (one.percent or one.difference,) if narrow else (one.difference, one.percent)
        table.add_row(*_cells(one.mark, one.name, one.a, one.b, *change, one.words))
    return table


def _differences(pair: Pair, a: str, b: str) -> None:
    from lab.compare import formats, rows

    found = output.table("", "kind", "difference", a, b, whole=("", "kind"))
    shown = list(rows.difference_rows(pair))
    files = [row for row in shown if row.kind == "code" and "/" in row.key]
    for row in shown:
        if row not in files[FILES:]:
            found.add_row(*(output.plain(cell) for cell in astuple(row)))
    if len(files) > FILES:
        found.add_row("", "code", formats.counted(len(files) - FILES, "more file"), "", "")
    output.show(found if found.row_count else rows.NO_DIFFERENCE, "")


def _code(pair: Pair) -> None:
    from lab.compare.code_changes import code_changes

    left = DIFF_LINES
    for one in code_changes(pair.a, pair.b):
        output.show("", output.plain(f"{one.path}: {one.heading}", "bold"))
        for line in one.lines[2 : 2 + left]:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            output.show(output.plain(line, style))
        left -= min(left, max(0, len(one.lines) - 2))
        if not left:
            output.show(output.plain("... more lines: the bundles in both run directories have all", "dim"))
            return


def _cells(mark: str, *cells: str) -> tuple[Text, ...]:
    return (output.plain(mark, STYLES.get(mark, "")), *(output.plain(cell) for cell in cells))
