"""Where two runs can be read off together: at the same number of tokens, never at the same step number."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.compare import costs
from lab.compare.comparability import first_step_fed_differently

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.compare.facts import RunFacts


@dataclass(frozen=True)
class Point:
    """A curve's value at a number of tokens; `exact` when a run measured right there."""

    value: float | None
    exact: bool


def common_tokens(runs: Sequence[RunFacts], *, evaluated: bool) -> float | None:
    """The largest number of tokens that every run has reached (and evaluated, if so asked)."""
    ends = [_finite(run.evaluations.tokens(run.steps) if evaluated else run.steps.tokens) for run in runs]
    return min((end[-1] for end in ends), default=None) if all(ends) else None


def validation_loss(run: RunFacts, tokens: float) -> Point:
    """The run's validation loss at `tokens`."""
    return read_off(run.evaluations.tokens(run.steps), run.evaluations.loss, tokens)


def bits_per_byte(run: RunFacts, tokens: float) -> Point:
    """The run's validation loss at `tokens`, in bits a byte of text."""
    return read_off(run.evaluations.tokens(run.steps), run.evaluations.bits_per_byte, tokens)


def training_loss(run: RunFacts, tokens: float) -> Point:
    """The loss of the step that reached `tokens`."""
    return read_off(run.steps.tokens, run.steps.column("loss"), tokens)


def shared_steps(a: RunFacts, b: RunFacts) -> list[int]:
    """The numbers of the steps that both runs have, in order."""
    if a.steps.numbers == b.steps.numbers:
        return a.steps.numbers
    return sorted({*a.steps.numbers} & {*b.steps.numbers})


def over_dollars(run: RunFacts, *, evaluated: bool) -> tuple[list[float], list[float]]:
    """What the run's steps had cost, and the loss at each such moment; both empty where no price is known."""
    paid = costs.step_dollars(run)
    if paid is None:
        return [], []
    if not evaluated:
        return paid, run.steps.column("loss")
    at = {0: 0.0, **dict(zip(run.steps.numbers, paid, strict=True))}
    return [at.get(step, math.nan) for step in run.evaluations.numbers], run.evaluations.loss


def read_off(axis: Sequence[float], values: Sequence[float], at: float) -> Point:
    """The value at `at`, on the straight line between its neighbours where none was measured."""
    points = [(x, y) for x, y in zip(axis, values, strict=True) if math.isfinite(x)]
    place = bisect_left(points, at, key=lambda point: point[0])
    if place < len(points) and points[place][0] == at:
        return Point(points[place][1], True)
    if not 0 < place < len(points):
        return Point(None, False)
    (x0, y0), (x1, y1) = points[place - 1], points[place]
    return Point(y0 + (y1 - y0) * (at - x0) / (x1 - x0), False)


@dataclass(frozen=True)
class Divergence:
    """The first shared step whose training loss is not the same to the last bit, and what class of cause it has."""

    step: int
    cause: str


def divergence(a: RunFacts, b: RunFacts) -> Divergence | None:
    """Where the curves part; None when they agree in every step that both have."""
    other = dict(zip(b.steps.numbers, b.steps.column("loss"), strict=True))
    pairs = zip(a.steps.numbers, a.steps.column("loss"), strict=True)
    step = next((step for step, loss in pairs if step in other and not _same(loss, other[step])), None)
    return None if step is None else Divergence(step, _cause(a, b, step))


def _same(one: float, other: float) -> bool:
    """Whether two losses agree; both may be no number."""
    return one == other or (math.isnan(one) and math.isnan(other))


def _cause(a: RunFacts, b: RunFacts, step: int) -> str:
    weights = a.fingerprint("weights_initial"), b.fingerprint("weights_initial")
    if None in weights or weights[0] != weights[1]:
        return "the initial weights differ"
    fed = first_step_fed_differently(a, b)
    if fed is not None and fed <= step:
        return f"the tokens fed differ from step {fed} on"
    return "the computation differs: same weights, same tokens"


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]
