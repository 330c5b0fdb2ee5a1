"""Figures over steps: ratios of sums, never means of rates, and how precisely one run shows its own rate.

The interval is of one run's own steps. It cannot see what differs between runs (the machine, its clocks, the layout
of memory), so it never is evidence that two runs differ.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LABEL = "within-run precision, not evidence of a difference"
RESAMPLES = 1000
MOST_BLOCKS = 200
"""More make the interval no better: a long run gets longer blocks instead."""
BLOCKS = 20
"""At least so many blocks must stay, or the bootstrap says too little to be shown."""
FEWEST_STEPS = 2 * BLOCKS
"""With fewer, no interval is shown."""


@dataclass(frozen=True)
class Interval:
    """The middle 95 % of what a resampled run would show."""

    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        """True when both could be showing one value."""
        return self.low <= other.high and other.low <= self.high


def rate(amounts: Sequence[float], seconds: Sequence[float]) -> float | None:
    """All amounts over all their time: what a bill is made of."""
    total, time = math.fsum(amounts), math.fsum(seconds)
    return total / time if time > 0 and math.isfinite(total) and math.isfinite(time) else None


def rate_interval(amounts: Sequence[float], seconds: Sequence[float], seed: int = 0) -> Interval | None:
    """A moving-block bootstrap of the rate: blocks as long as steps stay correlated; None when too few would fit.

    The run's end is joined to its beginning, so that every step is drawn equally often.
    """
    count = len(seconds)
    if count < FEWEST_STEPS or rate(amounts, seconds) is None:
        return None
    length = max(block_length(seconds), count // MOST_BLOCKS)
    blocks = count // length
    amount_of, seconds_of = (_block_sums(values, length) for values in (amounts, seconds))
    draw = random.Random(seed)
    starts = range(count)
    rates = []
    for _ in range(RESAMPLES):
        chosen = draw.choices(starts, k=blocks)
        rates.append(sum(map(amount_of.__getitem__, chosen)) / sum(map(seconds_of.__getitem__, chosen)))
    rates.sort()
    return Interval(rates[round(0.025 * (RESAMPLES - 1))], rates[round(0.975 * (RESAMPLES - 1))])


def block_length(values: Sequence[float]) -> int:
    """Three times as long as the values stay correlated, but never so long that fewer than 20 blocks remain."""
    longest = max(1, len(values) // BLOCKS)
    return min(longest, max(1, math.ceil(3 * correlation_time(values, longest))))


def correlation_time(values: Sequence[float], longest: int) -> float:
    """Integrated autocorrelation time in steps: 1 for independent values.

    The sum over lags stops once it has gone on for five times its own value, where only noise is left.
    """
    mean = fmean(values)
    centred = [value - mean for value in values]
    variance = sum(map(mul, centred, centred))
    if variance <= 0:
        return 1.0
    time = 1.0
    for lag in range(1, longest + 1):
        time += 2 * sum(map(mul, centred, centred[lag:])) / variance
        if lag >= 5 * time:
            break
    return max(1.0, time)


def _block_sums(values: Sequence[float], length: int) -> list[float]:
    sums = [0.0, *accumulate([*values, *values[: length - 1]])]
    return [sums[start + length] - sums[start] for start in range(len(values))]
