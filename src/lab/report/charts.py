"""What a chart shows, apart from how it is drawn: series, shaded regions, a text that says the same, and few points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from lab.compare import formats

if TYPE_CHECKING:
    from collections.abc import Sequence

MOST_POINTS = 1200
"""More cannot be told apart on a screen; a longer series is drawn as the lowest and highest of each bin."""
TABLE_ROWS = 24
FEWEST_POINTS = 3
"""Fewer make no curve: they are read as numbers."""
Style = Literal["line", "points", "steps"]


@dataclass(frozen=True)
class Series:
    """One curve or one set of points; NaN is kept, because a gap must show."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: Style = "line"
    color: int = 0
    """Which of the page's series colours."""
    dashed: bool = False


@dataclass(frozen=True)
class Region:
    """A stretch of the x axis that means something."""

    label: str
    start: float
    end: float


@dataclass(frozen=True)
class Chart:
    """One chart: `name` is its anchor, `about` a sentence that says what to see."""

    name: str
    title: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    regions: tuple[Region, ...] = ()
    about: str = ""
    y_format: str = ""
    """A unit of `lab.compare.formats`, for the text and the table."""
    x_format: str = ""
    from_zero: bool = False

    @property
    def drawable(self) -> bool:
        """True when there is at least one number to draw."""
        return any(math.isfinite(y) for series in self.series for y in series.y)

    @property
    def few(self) -> bool:
        """True when no series has enough values to be a curve."""
        return all(len(one.y) < FEWEST_POINTS for one in self.series)

    @cached_property
    def gaps(self) -> list[float]:
        """Where a series has a value that is not a number."""
        finite = math.isfinite
        places = {x for one in self.series for x, y in zip(one.x, one.y, strict=True) if not finite(y)}
        return sorted(place for place in places if math.isfinite(place))

    @cached_property
    def text(self) -> str:
        """What the chart shows, in a sentence for each series."""
        said = [self._said(one) for one in self.series if len(one.y)]
        marked = len(self.gaps)
        places = f"{formats.counted(marked, 'place')} {'is' if marked == 1 else 'are'}"
        gaps = f" {places} not a number and left open." if marked else ""
        return f"{self.title}. {' '.join(said)}{gaps}"

    def _said(self, one: Series) -> str:
        finite = [(x, y) for x, y in zip(one.x, one.y, strict=True) if math.isfinite(y)]
        if not finite:
            return f"{one.label}: no number."
        (first_x, first), (last_x, last) = finite[0], finite[-1]
        if len(finite) == 1:
            return f"{one.label}: {self.y(first)} at {self.at(first_x)}."
        low, high = min(y for _, y in finite), max(y for _, y in finite)
        return (
            f"{one.label}: {self.y(first)} at {self.at(first_x)} to {self.y(last)} at {self.at(last_x)}; "
            f"lowest {self.y(low)}, highest {self.y(high)}, {len(finite):,} values."
        )

    def table(self) -> list[tuple[str, ...]]:
        """The values of every series as rows of text, of many evenly spaced ones: x, series, value."""
        rows: list[tuple[str, ...]] = []
        each = self._listed_each
        for one in self.series:
            shown, last = min(each, len(one.y)), len(one.y) - 1
            places = sorted({round(place * last / max(1, shown - 1)) for place in range(shown)})
            rows += [(self.x(one.x[place]), one.label, self.y(one.y[place])) for place in places]
        return rows

    @property
    def _listed_each(self) -> int:
        return max(4, TABLE_ROWS // max(1, len(self.series)))

    @property
    def listing(self) -> str:
        """What the table leaves out, in a sentence; empty when it has every value."""
        most = max((len(one.y) for one in self.series), default=0)
        if most <= self._listed_each:
            return ""
        return f" Listed are at most {self._listed_each} of each, evenly spaced, the first and the last among them."

    def x(self, value: float) -> str:
        """A place on the x axis as text; what it counts is the axis's title."""
        return formats.quantity(value, self.x_format)

    def at(self, value: float) -> str:
        """A place on the x axis within a sentence: `step 12`, `1,000 tokens`, `0.5 s`."""
        if self.x_format == "seconds":
            return self.x(value)
        return f"{self.x(value)} {self.x_title}" if self.x_format else f"{self.x_title} {self.x(value)}"

    def y(self, value: float) -> str:
        """A value as text."""
        return formats.quantity(value, self.y_format)


def thinned(x: Sequence[float], y: Sequence[float], most: int = MOST_POINTS) -> tuple[list[float], list[float], int]:
    """The lowest and the highest value of each bin, in their order and at their own place, and the size of a bin.

    No extreme is lost and nothing is averaged. A bin that holds a value which is not a number keeps one of those too.
    """
    if len(x) <= most:
        return list(x), list(y), 1
    size = math.ceil(2 * len(x) / most)
    kept_x: list[float] = []
    kept_y: list[float] = []
    for start in range(0, len(x), size):
        places = range(start, min(start + size, len(x)))
        for place in _extremes(places, y):
            kept_x.append(x[place])
            kept_y.append(y[place])
    return kept_x, kept_y, size


def _extremes(places: range, y: Sequence[float]) -> list[int]:
    finite = [place for place in places if math.isfinite(y[place])]
    broken = next((place for place in places if not math.isfinite(y[place])), None)
    kept = {min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)} if finite else set()
    return sorted(kept | ({broken} if broken is not None else set()))
