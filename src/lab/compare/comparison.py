"""The whole answer about two or more runs: verdicts first, then figures, then what to type next."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from lab.compare import alignment, changes, comparability, differences, measures, rows, words
from lab.compare.verdicts import judge
from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from lab.compare.alignment import Divergence
    from lab.compare.changes import Change
    from lab.compare.differences import Difference
    from lab.compare.facts import RunFacts
    from lab.compare.measures import Measure
    from lab.compare.verdicts import Check, Judgement


@dataclass(frozen=True)
class Pair:
    """One run against the reference."""

    a: RunFacts
    b: RunFacts
    checks: tuple[Check, ...]
    judgements: tuple[Judgement, ...]
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    divergence: Divergence | None
    claims: tuple[str, ...]
    """What these runs show and do not show, one sentence or two a question."""

    def judgement(self, question: str) -> Judgement:
        """The verdict on one question."""
        return next(one for one in self.judgements if one.question == question)

    @property
    def failed(self) -> tuple[Check, ...]:
        """The checks that did not hold."""
        return tuple(check for check in self.checks if not check.passed)


@dataclass(frozen=True)
class Comparison:
    """All runs against the first, which is the reference."""

    runs: tuple[RunFacts, ...]
    measures: tuple[Measure, ...]
    pairs: tuple[Pair, ...]
    next_command: str

    def record(self) -> dict[str, Any]:
        """As plain values for JSON: what `--json` prints."""
        return {
            "schema": 1,
            "runs": [{"id": run.id, "experiment": run.name, "status": run.status} for run in self.runs],
            "pairs": [_pair_record(pair) for pair in self.pairs],
            "measures": [asdict(measure) for measure in self.measures],
            "next": self.next_command,
        }


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
    found = tuple(changes.change(figure, place, of.get(figure.question or ""), ranked=ranked) for figure in figures)
    parting = alignment.divergence(a, b)
    return Pair(
        a,
        b,
        checks,
        judgements,
        differences.between(a, b),
        found,
        parting,
        words.claims(rows.letter(place), a, b, judgements, found, parting),
    )


def _pair_record(pair: Pair) -> dict[str, Any]:
    return {
        "a": pair.a.id,
        "b": pair.b.id,
        "verdicts": {one.question: str(one.verdict) for one in pair.judgements},
        "because": {one.question: [check.name for check in one.because] for one in pair.judgements},
        "checks": [
            {"name": one.name, "passed": one.passed, "a": one.a, "b": one.b, "note": one.note, "declared": one.declared}
            for one in pair.checks
        ],
        "differences": [asdict(one) for one in pair.differences],
        "changes": [
            {
                "name": one.measure.name,
                "difference": one.difference,
                "ratio": one.ratio,
                "mark": str(one.mark),
                "words": one.words,
            }
            for one in pair.changes
        ],
        "divergence": asdict(pair.divergence) if pair.divergence else None,
        "claims": pair.claims,
    }
