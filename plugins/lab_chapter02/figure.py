"""The picture of chapter 2: what a micro-batch weighs in each way of accumulating, and how far off each gradient is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import vl_convert

from lab.runs.records import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RIGHT, WRONG = "sum, divided once", "mean of means"
COLORS = {"domain": [RIGHT, WRONG], "range": ["#4c78a8", "#d1495b"]}
SMALLEST = 1e-9
"""A logarithmic axis has no zero: an exact match is drawn here."""
MOST_MICRO_BATCHES = 12
PERCENT_WHERE_IT_READS_WELL = (
    "datum.value >= 0.01 ? format(100 * datum.value, '~g') + ' %' : format(datum.value, '.0e')"
)
# A browser's letters are wider than those the drawing was measured with: the margins leave room for them.
MARGINS = {"left": 16, "right": 40, "top": 8, "bottom": 8}
LARGE_LETTERS = {
    "axis": {"labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal"},
    "title": {"fontSize": 14, "subtitleFontSize": 13, "anchor": "start", "frame": "bounds"},
    "legend": {"orient": "top", "labelFontSize": 13, "title": None, "labelLimit": 200, "columnPadding": 36},
    "text": {"fontSize": 13},
    "font": "sans-serif",
}
"""A phone shows the picture at three quarters of its size."""


def draw(history: Sequence[Mapping[str, float]], counts: Sequence[int], path: Path) -> None:
    """Draw the weight of each micro-batch, and the two relative errors over the steps."""
    color = {"field": "way", "type": "nominal", "scale": COLORS}
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": "What each micro-batch weighs, and how far each accumulated gradient is from the whole batch's.",
        "padding": MARGINS,
        "vconcat": [_weights(counts, color), _distances(history, color)],
        "spacing": 28,
        "config": LARGE_LETTERS,
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())


def _weights(counts: Sequence[int], color: Mapping[str, Any]) -> dict[str, Any]:
    shown = counts[:MOST_MICRO_BATCHES]
    rows = [
        {"micro-batch": f"{count} targets", "place": place, "way": way, "weight": weight, "text": f"{weight:.1%}"}
        for place, count in enumerate(shown)
        for way, weight in ((RIGHT, count / sum(counts)), (WRONG, 1 / len(counts)))
    ]
    left_out = len(counts) - len(shown)
    more = f", the first {len(shown)} of {len(counts)}" if left_out else ""
    return {
        "title": {"text": "What a micro-batch weighs in the gradient", "subtitle": f"share of the whole{more}"},
        "width": 260,
        "height": 44 * len(shown),
        "data": {"values": rows},
        "encoding": {
            "y": {
                "field": "place",
                "type": "ordinal",
                "title": None,
                "axis": {
                    "labelExpr": f"{[f'{count} targets' for count in shown]}[datum.value]",
                    "ticks": False,
                    "minExtent": 95,
                },
            },
            "yOffset": {"field": "way", "sort": [RIGHT, WRONG]},
            "x": {"field": "weight", "type": "quantitative", "scale": {"domain": [0, 1.2]}, "axis": None},
        },
        "layer": [
            {"mark": "bar", "encoding": {"color": dict(color)}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {"text": {"field": "text", "type": "nominal"}},
            },
        ],
    }


def _distances(history: Sequence[Mapping[str, float]], color: Mapping[str, Any]) -> dict[str, Any]:
    rows = [
        {"step": step, "way": way, "error": max(line[key], SMALLEST)}
        for step, line in enumerate(history, start=1)
        for way, key in ((RIGHT, "right_gradient_error"), (WRONG, "wrong_gradient_error"))
        if math.isfinite(line[key])
    ]
    return {
        "title": {
            "text": "How far each gradient is from the whole batch's",
            "subtitle": "relative: at 100 % it is off by its own length",
        },
        "width": 300,
        "height": 240,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "title": "step", "axis": {"tickMinStep": 1, "tickCount": 6}},
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False},
                "title": None,
                "axis": {
                    "tickCount": 6,
                    "minExtent": 95,
                    "labelExpr": PERCENT_WHERE_IT_READS_WELL,
                },
            },
            "color": dict(color),
        },
    }
