"""Loss over tokens in the terminal: letters for runs, so that no colour is needed to tell them apart."""

from __future__ import annotations

import math
from string import ascii_uppercase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.compare.facts import RunFacts

LETTERS_A_RUN = 8


def loss_over_tokens(runs: Sequence[RunFacts], width: int = 68, height: int = 11) -> str:
    """The training loss of every run as a line of dots with its letter on it; empty when there is nothing to draw."""
    curves = [_curve(run) for run in runs]
    points = [point for curve in curves for point in curve]
    if len({x for x, _ in points}) < 2:
        return ""
    import plotille

    figure = plotille.Figure()
    figure.width, figure.height, figure.with_colors = width, height, False
    figure.origin = False
    figure.x_label, figure.y_label = "tokens", "loss"
    figure.register_label_formatter(float, _label)
    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = 0.05 * (high - low) or 0.5
    figure.set_y_limits(low - margin, high + margin)
    figure.set_x_limits(0, max(x for x, _ in points))
    for place, curve in enumerate(curves):
        letter = ascii_uppercase[place % len(ascii_uppercase)]
        figure.plot([x for x, _ in curve], [y for _, y in curve])
        apart = max(1, len(curve) // LETTERS_A_RUN)
        marked = curve[place * apart // len(curves) :: apart]
        figure.plot([x for x, _ in marked], [y for _, y in marked], marker=letter, interp=None)
    return "\n".join(line.rstrip(" \N{BRAILLE PATTERN BLANK}") for line in figure.show().splitlines())


def _curve(run: RunFacts) -> list[tuple[float, float]]:
    pairs = zip(run.steps.tokens, run.steps.column("loss"), strict=True)
    whole = [(x, y) for x, y in pairs if math.isfinite(x) and math.isfinite(y)]
    return whole[:: max(1, len(whole) // 400)]


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:
    text = f"{value:.4g}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            text = f"{value / size:.3g} {letter}"
            break
    return text.ljust(chars) if left else text.rjust(chars)
