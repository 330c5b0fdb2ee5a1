"""The sections of a comparison's page: verdicts first, figures second, the curves, then the code."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING

from lab.compare import changes, formats, rows
from lab.compare.code_changes import code_changes
from lab.report import figures
from lab.report.blocks import Listing, Section, Table, Text, VerdictCard, Verdicts, plots

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.compare.answer import Comparison, Pair
    from lab.report.blocks import Block

TONES = {"comparable": "good", "within limits": "open", "not comparable": "bad"}
DIFF_LINES = 400
OWN_COMMAND = "lab report "
"""What writes this page: nothing to do next for whoever reads it."""


def sections(comparison: Comparison, only_changed: bool = False) -> list[Section]:
    """All sections of the page; with `only_changed`, without what is the same in both runs of a pair."""
    runs = [(formats.letter(place), run.id, run.name, run.status) for place, run in enumerate(comparison.runs)]
    found = [Section("runs", "Runs", [Table("", ("letter", "run", "experiment", "status"), runs, heading="run")])]
    for place, pair in enumerate(comparison.pairs, start=1):
        found += _pair(comparison, pair, place, only_changed)
    curves: list[Block] = plots(figures.of_comparison(comparison.runs))
    intervals = list(rows.interval_lines(comparison))
    if intervals:
        curves.append(Text("Within-run precision, not evidence of a difference: " + "; ".join(intervals) + "."))
    found.append(Section("curves", "Curves, aligned by tokens", curves))
    found += [_code(pair, place) for place, pair in enumerate(comparison.pairs, start=1)]
    if not comparison.next_command.startswith(OWN_COMMAND):
        found.append(Section("next", "Next", [Listing("To go on", comparison.next_command, folded=False)]))
    return found


def _pair(comparison: Comparison, pair: Pair, place: int, only_changed: bool) -> list[Section]:
    a, b = formats.letter(0), formats.letter(place)
    several = len(comparison.pairs) > 1
    name, suffix = (f"-{place}", f", {a} and {b}") if several else ("", "")
    verdicts = [
        VerdictCard(
            one.question, str(one.verdict), ", ".join(check.name for check in one.because), TONES[str(one.verdict)]
        )
        for one in pair.judgements
    ]
    checks = [astuple(row) for row in rows.check_rows(pair, only_changed=only_changed)]
    differences = [astuple(row) for row in rows.difference_rows(pair)]
    shown = [
        (row.mark, row.name, row.a, row.b, row.difference, row.percent, row.words, f"{row.known}, {row.how}")
        for row in rows.figure_rows(pair, place, only_changed=only_changed)
    ]
    columns = ("", "figure", a, b, "difference", "%", "what it is worth", "how it is known")
    answer: Sequence[Block] = [
        Verdicts(verdicts),
        *(Text(claim) for claim in pair.claims),
    ]
    return [
        Section(f"verdict{name}", f"Verdict{suffix}", answer),
        Section(
            f"differences{name}",
            f"Differences{suffix}",
            [Table("", ("", "kind", "difference", a, b), differences, heading="difference")]
            if differences
            else [Text(rows.NO_DIFFERENCE)],
        ),
        Section(
            f"checks{name}",
            f"Checks{suffix}",
            [Table("", ("", "check", a, b, "note"), checks, heading="check")] if checks else [Text(rows.ALL_HOLD)],
        ),
        Section(
            f"figures{name}",
            f"Figures{suffix}",
            [Table("", columns, shown, (a, b, "difference", "%"), note=changes.LEGEND, heading="figure")]
            if shown
            else [Text(rows.NO_FIGURE[only_changed])],
        ),
    ]


def _code(pair: Pair, place: int) -> Section:
    blocks: list[Block] = []
    for one in code_changes(pair.a, pair.b):
        if not one.lines:
            blocks.append(Text(f"{one.path}: {one.heading}."))
            continue
        more = len(one.lines) - DIFF_LINES
        text = "\n".join(one.lines[:DIFF_LINES]) + (f"\n... {formats.counted(more, 'more line')}" if more > 0 else "")
        blocks.append(Listing(f"{one.path}: {one.heading}", text))
    return Section(f"code-{place}", f"Code that ran, {formats.letter(0)} and {formats.letter(place)}", blocks)
