"""A comparison as rows of short texts: what the terminal, Markdown and the page all show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.compare import formats
from lab.compare.changes import Mark
from lab.compare.formats import letter
from lab.compare.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.compare.answer import Comparison, Pair
    from lab.compare.changes import Change
    from lab.compare.verdicts import Check

HELD = "ok"
NO_DIFFERENCE = "Nothing that was recorded differs."
ALL_HOLD = "Every check holds."
NO_FIGURE = {False: "No run has a figure to compare.", True: "Every figure is the same."}
"""What stands in place of an empty table of figures, by whether only those that changed were asked for."""


@dataclass(frozen=True)
class CheckRow:
    """One check: `ok`, `~` for within limits or `x` for not comparable, then both values."""

    sign: str
    name: str
    a: str
    b: str
    note: str


@dataclass(frozen=True)
class FigureRow:
    """One figure of two runs."""

    mark: str
    name: str
    a: str
    b: str
    difference: str
    percent: str
    """The difference as a share of the first run's value; empty for a share, whose difference is in points already."""
    words: str
    known: str
    how: str


@dataclass(frozen=True)
class DifferenceRow:
    """One thing that differs."""

    declared: str
    kind: str
    key: str
    a: str
    b: str


def letters(comparison: Comparison, pair: Pair) -> tuple[str, str]:
    """The letters of a pair's two runs."""
    return letter(0), letter(comparison.pairs.index(pair) + 1)


def headline(pair: Pair) -> str:
    """The three verdicts in one line, those that fail with the checks that say so."""
    parts = []
    for one in pair.judgements:
        names = ", ".join(check.name for check in one.because)
        parts.append(f"{one.question} {one.verdict}{f' ({names})' if names else ''}")
    return "; ".join(parts)


def check_rows(pair: Pair, *, only_changed: bool = False) -> Iterator[CheckRow]:
    """Every check, or only those that do not hold."""
    for check in pair.checks:
        if only_changed and check.passed:
            continue
        a, b = formats.short(check.a), formats.short(check.b)
        yield CheckRow(_sign(check), check.name, a, "" if check.passed and a == b else b, check.note)


def figure_rows(pair: Pair, place: int, *, only_changed: bool = False) -> Iterator[FigureRow]:
    """Every figure, or only those that are not the same."""
    for change in pair.changes:
        if not (only_changed and change.difference == 0):
            yield _figure(change, place)


def difference_rows(pair: Pair) -> Iterator[DifferenceRow]:
    """Everything that differs, declared first."""
    for one in pair.differences:
        declared = "declared" if one.declared else "undeclared"
        yield DifferenceRow(declared, one.kind, one.key, *map(formats.short, _apart(one.a, one.b)))


def interval_lines(comparison: Comparison) -> Iterator[str]:
    """How precisely each run shows its own rate."""
    for measure in comparison.measures:
        for place, one in enumerate(measure.intervals):
            if one is not None:
                yield f"{letter(place)}: {measure.name} {formats.interval(one, measure.unit)}"


def _apart(a: object, b: object) -> tuple[object, object]:
    """Of two lists only the entries that are not in both, where there are any: a long list hides what differs."""
    if not (isinstance(a, (list, tuple)) and isinstance(b, (list, tuple))):
        return a, b
    own, other = [one for one in a if one not in b], [one for one in b if one not in a]
    return (own, other) if own or other else (a, b)


def _sign(check: Check) -> str:
    if check.passed:
        return HELD
    worst = max(check.allows.values(), key=lambda verdict: verdict.rank)
    return str(Mark.NOT_COMPARABLE if worst is Verdict.NOT_COMPARABLE else Mark.NO_CLAIM)


def _figure(change: Change, place: int) -> FigureRow:
    measure = change.measure
    return FigureRow(
        mark=str(change.mark),
        name=measure.name,
        a=formats.quantity(measure.values[0], measure.unit),
        b=formats.quantity(measure.values[place], measure.unit),
        difference=formats.moved(change.difference, measure.unit),
        percent="" if measure.unit == "share" else formats.percent(change.ratio),
        words=change.words,
        known=measure.known,
        how=measure.how,
    )
