"""How a figure of one run stands to the same figure of the reference: a difference, a mark, and direction in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lab.compare.formats import letter
from lab.compare.surroundings import SAME_MODEL_SPREAD
from lab.compare.verdicts import Verdict

if TYPE_CHECKING:
    from lab.compare.measures import Measure
    from lab.compare.verdicts import Judgement

PRACTICAL = 0.03
"""A speed difference below this is not called one: two single runs of one experiment differ by a percent or two."""
DIRECTIONS = {"loss": ("lower", "higher"), "speed": ("faster", "slower"), "memory": ("less memory", "more memory")}


class Mark(StrEnum):
    """One character that says what a difference is worth; it means the same without colour."""

    BETTER = "+"
    WORSE = "-"
    NO_CLAIM = "~"
    NOT_COMPARABLE = "x"
    BROKEN = "!"


LEGEND = "+ better   - worse   ~ no claim   x not comparable   ! missing or not a number"


@dataclass(frozen=True)
class Change:
    """One figure of one run against the reference."""

    measure: Measure
    difference: float | None
    ratio: float | None
    """The difference as a share of the reference."""
    mark: Mark
    words: str


def change(
    measure: Measure, place: int, judgement: Judgement | None, *, ranked: bool = True, same_text: bool = False
) -> Change:
    """Judge the run at `place` against the first; `judgement` is the verdict on the figure's question.

    `ranked` is False where tokens are not the same pieces of text. Where they are pieces of the `same_text`, bits a
    byte are compared all the same.
    """
    before, after = measure.values[0], measure.values[place]
    if before is None or after is None:
        who = " and ".join(letter(one) for one in (0, place) if measure.values[one] is None)
        mark = Mark.NO_CLAIM if measure.question is None else Mark.BROKEN
        return Change(measure, None, None, mark, f"{measure.absent} {who}")
    if not (math.isfinite(before) and math.isfinite(after)):
        return Change(measure, None, None, Mark.BROKEN, "not a number")
    in_bytes = measure.unit == "bits/byte" and same_text and not ranked
    if judgement is not None and judgement.verdict is Verdict.NOT_COMPARABLE and not in_bytes:
        names = ", ".join(
            check.name for check in judgement.because if check.allows[judgement.question] == judgement.verdict
        )
        return Change(measure, None, None, Mark.NOT_COMPARABLE, f"not comparable: {names}")
    if not ranked and measure.unit == "nats/token":
        return Change(measure, None, None, Mark.NOT_COMPARABLE, "a token is not the same text in both")
    difference = after - before
    ratio = difference / abs(before) if before else None  # with the sign of the difference
    if difference == 0:
        return Change(measure, 0.0, 0.0, Mark.NO_CLAIM, "the same")
    mark, reason = _mark(measure, place, ratio, judgement)
    return Change(
        measure, difference, ratio, mark, ", ".join(part for part in (_direction(measure, difference), reason) if part)
    )


def _direction(measure: Measure, difference: float) -> str:
    if measure.question is None or measure.better is None:
        return "higher" if difference > 0 else "lower"
    good, bad = DIRECTIONS[measure.question]
    return good if _improves(measure, difference) else bad


def _improves(measure: Measure, difference: float) -> bool:
    return (difference < 0) == (measure.better == "lower")


def _mark(measure: Measure, place: int, ratio: float | None, judgement: Judgement | None) -> tuple[Mark, str]:
    if judgement is None or measure.better is None:
        return Mark.NO_CLAIM, ""
    if measure.question == "loss":
        return Mark.NO_CLAIM, "one seed each"
    if judgement.verdict is Verdict.WITHIN_LIMITS and not _exceeds_limits(ratio, judgement):
        return Mark.NO_CLAIM, f"within limits: {', '.join(check.name for check in judgement.because)}"
    doubt = _doubt(measure, place, ratio) if measure.question == "speed" else ""
    if doubt:
        return Mark.NO_CLAIM, doubt
    return (Mark.BETTER if _improves(measure, ratio or 0.0) else Mark.WORSE), ""


def _exceeds_limits(ratio: float | None, judgement: Judgement) -> bool:
    """Only one limit is a number: how far two GPUs of one model lie apart."""
    only_another_gpu = [check.name for check in judgement.because] == ["GPU UUID"]
    return only_another_gpu and _far(ratio, SAME_MODEL_SPREAD)


def _doubt(measure: Measure, place: int, ratio: float | None) -> str:
    """Why a speed difference between two single runs is not called one; empty when it is."""
    if not measure.intervals:
        return "tokens per second decides"
    if not _far(ratio, PRACTICAL):
        return f"less than {PRACTICAL:.0%}: one run each shows no more"
    one, other = measure.intervals[0], measure.intervals[place]
    if one is None or other is None:
        return "too few steps to say how precise"
    return "the runs' own intervals overlap" if one.overlaps(other) else ""


def _far(ratio: float | None, share: float) -> bool:
    """Further apart than `share`, whichever run comes first."""
    return ratio is not None and (ratio <= -1 or abs(math.log1p(ratio)) > math.log1p(share))
