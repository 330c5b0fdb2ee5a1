"""What a script may demand of a comparison: that questions are comparable, and that figures are not worse."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.compare import formats, words
from lab.compare.verdicts import QUESTIONS, Verdict
from lab.errors import Refused, Regression, UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.compare.answer import Comparison
    from lab.compare.changes import Change

FIGURES = {"loss": ("validation loss", "training loss"), "speed": ("tokens per second",), "memory": ("peak allocated",)}
"""The figure that a bound on each question means; the first one that the runs have."""
_BOUND = re.compile(r"^\s*(?P<question>\w+)\s*:\s*(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<percent>%?)\s*$")


@dataclass(frozen=True)
class Bound:
    """How much worse a figure may be: its sign is the bad direction."""

    question: str
    number: float
    percent: bool
    text: str

    def broken_by(self, change: Change) -> bool:
        """True when the figure moved that far or further."""
        moved, allowed = (change.ratio, self.number / 100) if self.percent else (change.difference, self.number)
        if moved is None:
            return True
        return moved <= allowed if allowed < 0 else moved >= allowed


def questions(text: str) -> tuple[str, ...]:
    """`loss,memory` as questions. Raises `UsageError` naming one that there is not."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    for question in found:
        if question not in QUESTIONS:
            raise UsageError(f"--require: there is no question '{question}'.", did_you_mean(question, QUESTIONS))
    return found


def bound(text: str) -> Bound:
    """`speed:-3%` as a bound. Raises `UsageError` when it cannot be read, or bounds nothing."""
    match = _BOUND.match(text)
    if match is None or match["question"] not in QUESTIONS:
        raise UsageError(
            f"--fail-if {text!r} is not a bound.",
            "Give a question and how far is too far: speed:-3%, loss:+0.02, memory:+5%.",
        )
    number = float(match["number"])
    if number == 0 or not match["number"].startswith(("+", "-")):
        raise UsageError(f"--fail-if {text!r}: the number needs a sign and must not be 0.", "Example: speed:-3%")
    return Bound(match["question"], number, bool(match["percent"]), text.strip())


def require(comparison: Comparison, wanted: Iterable[str]) -> None:
    """Raise `Refused` for every wanted question that some pair cannot answer."""
    refused = [
        f"{pair.a.id} and {pair.b.id}: {words.refusal(pair.judgement(question))}"
        for question in wanted
        for pair in comparison.pairs
        if pair.judgement(question).verdict is Verdict.NOT_COMPARABLE
    ]
    if refused:
        raise Refused("\n".join(refused), f"Next: {comparison.next_command}")


def fail_if(comparison: Comparison, bounds: Iterable[Bound]) -> None:
    """Raise `Regression` for every bound that a pair breaks; `Refused` when its question is not comparable."""
    bounds = tuple(bounds)
    require(comparison, dict.fromkeys(one.question for one in bounds))
    broken = []
    for one in bounds:
        for pair in comparison.pairs:
            change = _figure(pair.changes, one.question)
            if change is None or not _known(change):
                broken.append(f"{pair.b.id}: {one.question} is missing or not a number; {one.text} cannot hold.")
            elif one.percent and change.ratio is None:
                broken.append(
                    f"{pair.b.id}: {change.measure.name} is 0 in {pair.a.id}, of which {one.text} is no share."
                )
            elif one.broken_by(change):
                moved = formats.percent(change.ratio) if one.percent else f"{change.difference:+.4g}"
                broken.append(
                    f"{pair.b.id}: {change.measure.name} {moved} against {pair.a.id}; {one.text} was not to happen."
                )
    if broken:
        raise Regression("\n".join(broken))


def _figure(found: Iterable[Change], question: str) -> Change | None:
    by_name = {change.measure.name: change for change in found}
    return next((by_name[name] for name in FIGURES[question] if name in by_name), None)


def _known(change: Change) -> bool:
    return change.difference is not None and math.isfinite(change.difference)
