"""The pieces that a page is made of; the templates know how each looks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lab.report.charts import Chart
    from lab.report.numbers import Number


@dataclass(frozen=True)
class Text:
    """One paragraph."""

    kind: ClassVar[str] = "text"
    text: str


@dataclass(frozen=True)
class Numbers:
    """Figures with how each is known."""

    kind: ClassVar[str] = "numbers"
    numbers: Sequence[Number]


@dataclass(frozen=True)
class Table:
    """Rows of short texts. A column named in `right` holds numbers."""

    kind: ClassVar[str] = "table"
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: Sequence[str] = ()
    note: str = ""
    folded: bool = False
    """Shown only when the reader asks for it; printed anyway."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Where the cell with this text leads: a path relative to the page."""
    heading: str = ""
    """The column that names a row: on a phone each row is a card below it, where the table would be too wide."""


@dataclass(frozen=True)
class Bar:
    """One labelled share of a whole."""

    label: str
    share: float
    text: str


@dataclass(frozen=True)
class Bars:
    """Shares as bars, each with its figure in words."""

    kind: ClassVar[str] = "bars"
    title: str
    bars: Sequence[Bar]
    note: str = ""


@dataclass(frozen=True)
class Plot:
    """A chart, with its text and its values."""

    kind: ClassVar[str] = "plot"
    chart: Chart


@dataclass(frozen=True)
class Listing:
    """Text as it is: a log's end, a diff, a whole configuration."""

    kind: ClassVar[str] = "listing"
    title: str
    text: str
    folded: bool = True


@dataclass(frozen=True)
class Image:
    """A picture that a loop or an observer made, inside the page."""

    kind: ClassVar[str] = "image"
    title: str
    address: str
    """A data: address."""
    in_the_dark: Literal["as it is", "turned", "by itself"] = "as it is"
    """What becomes of it on a dark page: it stays on white, light and dark change places, or it knows what to do."""


@dataclass(frozen=True)
class VerdictCard:
    """The verdict on one question, and the checks that it stands on; `tone` is good, open or bad."""

    question: str
    verdict: str
    because: str
    tone: str


@dataclass(frozen=True)
class Verdicts:
    """The answer of a comparison."""

    kind: ClassVar[str] = "verdicts"
    verdicts: Sequence[VerdictCard]


Block = Text | Numbers | Table | Bars | Plot | Listing | Image | Verdicts


@dataclass(frozen=True)
class Section:
    """One heading and what stands below it; a section with nothing to show is left out."""

    name: str
    title: str
    blocks: Sequence[Block] = field(default=())

    @property
    def shown(self) -> list[Block]:
        """The blocks without tables, figures and bars that hold nothing."""
        return [block for block in self.blocks if not _is_empty(block)]


def _is_empty(block: Block) -> bool:
    if isinstance(block, Table):
        return not block.rows
    if isinstance(block, Numbers):
        return not block.numbers
    return isinstance(block, Bars) and not block.bars


def plots(charts: Iterable[Chart]) -> list[Block]:
    """Each chart; those of so few values that there is no curve as the rows of one table of numbers."""
    every = list(charts)
    rows = [
        (chart.title if len(chart.series) == 1 else f"{chart.title}, {one.label}", chart.at(x), chart.y(y))
        for chart in every
        if chart.few
        for one in chart.series
        for x, y in zip(one.x, one.y, strict=True)
        if math.isfinite(x)
    ]
    table = [Table("", ("figure", "at", "number"), rows, ("number",), heading="figure")] if rows else []
    return [*table, *(Plot(chart) for chart in every if not chart.few)]


def bars(title: str, parts: Sequence[tuple[str, float, str]], note: str = "") -> Bars:
    """Bars from amounts: each as its share of the largest, with its text."""
    largest = max((amount for _, amount, _ in parts), default=0.0) or 1.0
    return Bars(title, [Bar(label, max(0.0, amount / largest), text) for label, amount, text in parts], note)
