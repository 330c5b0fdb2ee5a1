"""The whole answer about two or more runs: verdicts first, then figures, then what to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.compare import alignment, changes, comparability, differences, formats, measures, words
from lab.compare.answer import Comparison, Pair
from lab.compare.verdicts import judge
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.compare.facts import RunFacts
    from lab.compare.measures import Measure


def compare(runs: Sequence[RunFacts]) -> Comparison:
    """Compare every run with the first."""
    if len(runs) < 2:
        raise UsageError("lab compare needs two runs or more.", "`lab runs` lists them.")
    figures = measures.measures(runs)
    ranked = not measures.tokenizers_differ(runs)
    pairs = tuple(_pair(runs[0], run, place, figures, ranked) for place, run in enumerate(runs[1:], start=1))
    return Comparison(tuple(runs), figures, pairs, words.next_command(pairs))


def _pair(a: RunFacts, b: RunFacts, place: int, figures: Sequence[Measure], ranked: bool) -> Pair:
    checks = comparability.checks(a, b)
    judgements = judge(checks)
    of = {one.question: one for one in judgements}
    same_text = a.manifest.get("source") == b.manifest.get("source")
    found = tuple(
        changes.change(figure, place, of.get(figure.question or ""), ranked=ranked, same_text=same_text)
        for figure in figures
    )
    parting = alignment.divergence(a, b)
    return Pair(
        a,
        b,
        checks,
        judgements,
        differences.between(a, b),
        found,
        parting,
        words.claims(formats.letter(place), a, b, judgements, found, parting),
    )
