"""A comparison as Markdown, for a report, an issue or a pull request."""

from __future__ import annotations

import re
from dataclasses import astuple
from typing import TYPE_CHECKING

from lab.compare import changes, formats, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from _typeshed import DataclassInstance

    from lab.compare.answer import Comparison, Pair

_ACTIVE = re.compile(r"([\\`*_{}\[\]<>#|!])")


def markdown(comparison: Comparison, *, only_changed: bool = False) -> str:
    """Verdict first, figures second, the next command last."""
    lines = [f"# {' and '.join(_text(run.id) for run in comparison.runs)}", ""]
    runs = [(formats.letter(place), run.id, run.name, run.status) for place, run in enumerate(comparison.runs)]
    lines += table(("", "run", "experiment", "status"), runs)
    for place, pair in enumerate(comparison.pairs, start=1):
        lines += _pair(pair, place, only_changed)
    lines += ["", f"Next: `{comparison.next_command}`"]
    return "\n".join(lines) + "\n"


def table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a Markdown table whose cells are plain text."""
    yield f"| {' | '.join(columns)} |"
    yield f"|{' --- |' * len(columns)}"
    yield from (f"| {' | '.join(_text(cell) for cell in row)} |" for row in cells)


def _pair(pair: Pair, place: int, only_changed: bool) -> Iterator[str]:
    a, b = formats.letter(0), formats.letter(place)
    yield from ("", f"## {a} and {b}", "")
    yield from (f"- **{one.question}**: {one.verdict}{_because(one.because)}" for one in pair.judgements)
    yield from ("", "### Differences", "")
    yield from _filled(("", "kind", "difference", a, b), rows.difference_rows(pair), rows.NO_DIFFERENCE)
    yield from ("", "### Checks", "")
    checks = rows.check_rows(pair, only_changed=only_changed)
    yield from _filled(("", "check", a, b, "note"), checks, rows.ALL_HOLD)
    yield from ("", "### Figures", "")
    figures = rows.figure_rows(pair, place, only_changed=only_changed)
    columns = ("", "figure", a, b, "difference", "%", "what it is worth", "known", "how")
    yield from _filled(columns, figures, rows.NO_FIGURE[only_changed])
    yield from ("", _text(changes.LEGEND), "")
    yield from (f"- {_text(claim)}" for claim in pair.claims)


def _filled(columns: Sequence[str], found: Iterable[DataclassInstance], instead: str) -> Iterator[str]:
    """The table, or a sentence where it would have no rows."""
    cells = [astuple(row) for row in found]
    yield from table(columns, cells) if cells else (instead,)


def _because(checks: Iterable[object]) -> str:
    names = ", ".join(getattr(check, "name", "") for check in checks)
    return f" ({names})" if names else ""


def _text(content: str) -> str:
    """No character of a value may become markup."""
    return _ACTIVE.sub(r"\\\1", " ".join(content.split()))
