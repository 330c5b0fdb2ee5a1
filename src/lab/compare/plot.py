"""Loss over tokens in the terminal: letters for runs, so that no colour is needed to tell them apart."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

from lab.compare.formats import letter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from plotille import Canvas

    from lab.compare.facts import RunFacts

    Curve = list[tuple[float, float]]

LETTERS_A_RUN = 8
MARGIN = 9
_BLANK = " \N{BRAILLE PATTERN BLANK}"


def loss_over_tokens(runs: Sequence[RunFacts], width: int = 68, height: int = 11) -> str:
    """The training loss of every run as a line of dots with its letter on it, its evaluations as small letters.

    Empty when there is nothing to draw.
    """
    curves, evaluated = [_curve(run) for run in runs], [_evaluations(run) for run in runs]
    points = [point for curve in (*curves, *evaluated) for point in curve]
    right = max((x for x, _ in points), default=0.0)
    if right <= 0 or len({x for x, _ in points}) < 2:
        return ""
    from plotille import Canvas  # its Figure would load numpy, which takes longer than all the rest

    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = 0.05 * (high - low) or 0.5
    canvas = Canvas(width, height, xmin=0, ymin=low - margin, xmax=right, ymax=high + margin)
    for place, curve in enumerate(curves):
        _draw(canvas, curve, place, len(curves))
    for place, curve in enumerate(evaluated):
        for x, y in curve:
            canvas.point(x, y, marker=letter(place)[0].lower())
    keys = [f"{_letters(curves)} training", f"{_letters(evaluated).lower()} evaluations" if any(evaluated) else ""]
    return "\n".join(_framed(canvas, width, height, "   ".join(filter(None, keys))))


def _letters(curves: Sequence[Curve]) -> str:
    return ", ".join(letter(place) for place, curve in enumerate(curves) if curve)


def _draw(canvas: Canvas, curve: Curve, place: int, runs: int) -> None:
    for (x0, y0), (x1, y1) in pairwise(curve):
        canvas.line(x0, y0, x1, y1)
    apart = max(1, len(curve) // LETTERS_A_RUN)
    for x, y in curve[place * apart // runs :: apart]:
        canvas.point(x, y, marker=letter(place)[0])


def _framed(canvas: Canvas, width: int, height: int, keys: str) -> Iterator[str]:
    """The canvas with its axes: a number every few lines, and three below."""
    yield f"{'loss':>{MARGIN}}  {keys}"
    for row, line in enumerate(canvas.plot(linesep="\n").split("\n")):
        value = canvas.ymax - (row + 0.5) / height * (canvas.ymax - canvas.ymin)
        label = f"{value:.4g}" if row % 3 == 1 else ""
        yield f"{label:>{MARGIN}} |{line}".rstrip(_BLANK)
    ends = [_short(canvas.xmax * share) for share in (0, 0.5, 1)]
    yield f"{'':>{MARGIN}} +{'-' * width}"
    yield f"{'tokens':>{MARGIN}}  {ends[0]}{ends[1]:>{width // 2}}{ends[2]:>{width - width // 2 - 1}}"


def _curve(run: RunFacts) -> Curve:
    whole = _finite(run.steps.tokens, run.steps.column("loss"))
    return whole[:: max(1, len(whole) // 400)]


def _evaluations(run: RunFacts) -> Curve:
    whole = _finite(run.evaluations.tokens(run.steps), run.evaluations.loss)
    return whole[:: max(1, len(whole) // LETTERS_A_RUN)]


def _finite(tokens: Sequence[float], losses: Sequence[float]) -> Curve:
    return [(x, y) for x, y in zip(tokens, losses, strict=True) if math.isfinite(x) and math.isfinite(y)]


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"
