"""What a comparison holds once it is made: all runs, each against the first, with its verdicts and figures."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

    def record(self, *, only_changed: bool = False) -> dict[str, Any]:
        """As plain values for JSON: what `--json` prints, on request without what is the same in both runs."""
        return {
            "schema": 1,
            "runs": [{"id": run.id, "experiment": run.name, "status": run.status} for run in self.runs],
            "pairs": [_pair_record(pair, only_changed) for pair in self.pairs],
            "measures": [
                asdict(measure) for measure in self.measures if not (only_changed and len({*measure.values}) == 1)
            ],
            "next": self.next_command,
        }


def _pair_record(pair: Pair, only_changed: bool) -> dict[str, Any]:
    return {
        "a": pair.a.id,
        "b": pair.b.id,
        "verdicts": {one.question: str(one.verdict) for one in pair.judgements},
        "because": {one.question: [check.name for check in one.because] for one in pair.judgements},
        "checks": [
            {"name": one.name, "passed": one.passed, "a": one.a, "b": one.b, "note": one.note, "declared": one.declared}
            for one in pair.checks
            if not (only_changed and one.passed)
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
            if not (only_changed and one.difference == 0)
        ],
        "divergence": asdict(pair.divergence) if pair.divergence else None,
        "claims": pair.claims,
    }
