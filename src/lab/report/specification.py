"""A chart as a Vega-Lite specification.

Colours are the page's own variables, so that a chart follows light, dark and paper without being drawn again.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lab.report import legend, style
from lab.report.charts import thinned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.report.charts import Chart, Series

Spec = dict[str, Any]
WIDTH, HEIGHT = 720, 250
COLORS = tuple(f"var(--series-{place})" for place in range(6))
VALUE_DIGITS, PLACE_DIGITS = 7, 12
"""More than a screen shows, and half the bytes; a number of tokens stays whole."""
_SHOWN: Spec = {"domain": [{"expr": "shown_from"}, {"expr": "shown_to"}], "nice": False, "zero": False}


def specification(chart: Chart) -> tuple[Spec, int]:
    """The chart as Vega-Lite, and how many values the largest bin stands for."""
    chart = drawn(chart)
    values, bin_size = _values(chart)
    low, high = _extent(chart)
    labels = [one.label for one in chart.series]
    color = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": labels, "range": [COLORS[one.color % len(COLORS)] for one in chart.series]},
        "legend": {"title": None} if len(labels) > 1 else None,
    }
    layers = [*_regions(chart), *_lines(chart, color), *_points(chart, color), *_gaps(chart)]
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "background": None,
        "width": WIDTH,
        "height": HEIGHT,
        "autosize": {"type": "fit", "contains": "padding"},
        "params": [{"name": "shown_from", "value": low}, {"name": "shown_to", "value": high}],
        "data": {"name": "points", "values": values},
        "transform": [{"filter": "datum.x >= shown_from && datum.x <= shown_to"}],
        "layer": layers,
        "config": style.config(),
    }, bin_size


def drawn(chart: Chart) -> Chart:
    """The chart with those series alone that have anything to draw, each as it will be drawn."""
    return replace(chart, series=tuple(_seen(one) for one in chart.series if len(one.y)))


def _seen(one: Series) -> Series:
    """A line of one value has no length and would be invisible: it is drawn as a point."""
    numbers = sum(map(math.isfinite, one.y))
    return replace(one, style="points") if numbers == 1 and one.style == "line" else one


def _extent(chart: Chart) -> tuple[float, float]:
    places = [x for one in chart.series for x in one.x if math.isfinite(x)]
    low, high = (_rounded(end(places, default=0.0), PLACE_DIGITS) for end in (min, max))
    return (low, high) if high > low else (low - 1, high + 1)


def _values(chart: Chart) -> tuple[list[Spec], int]:
    found: list[Spec] = []
    bin_size = 1
    for one in chart.series:
        x, y, size = thinned(one.x, one.y)
        bin_size = max(bin_size, size)
        found += [
            {"series": one.label, "x": _json(place, PLACE_DIGITS), "y": _json(value)}
            for place, value in zip(x, y, strict=True)
        ]
    return found, bin_size


def _json(value: float, digits: int = VALUE_DIGITS) -> float | None:
    return _rounded(value, digits) if math.isfinite(value) else None


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def _axes(chart: Chart) -> Spec:
    x_format = "~s" if any(abs(x) >= 10_000 for one in chart.series for x in one.x if math.isfinite(x)) else ".6~g"
    return {
        "x": {
            "field": "x",
            "type": "quantitative",
            "title": chart.x_title,
            "axis": {
                "format": x_format,
                "labelFlush": True,
                "labelExpr": "datum.value === 0 ? '0' : datum.label",
                "tickCount": {"expr": "max(2, width / 90)"},
                "tickMinStep": 0 if chart.x_format == "seconds" else 1,
            },
            "scale": _SHOWN,
        },
        "y": {
            "field": "y",
            "type": "quantitative",
            "title": chart.y_title,
            "axis": {
                "format": "~s" if chart.y_format in ("tokens/s", "tokens") else ".6~g",
                "tickCount": 5,
                "labelExpr": "datum.value === 0 ? '0' : datum.label",
            },
            "scale": {"zero": chart.from_zero, "nice": True},
        },
    }


def _of(series: Sequence[Series]) -> Spec:
    return {"filter": {"field": "series", "oneOf": [one.label for one in series]}}


def _lines(chart: Chart, color: Spec) -> list[Spec]:
    lines = [one for one in chart.series if one.style == "line"]
    if not lines:
        return []
    dash = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": [one.label for one in lines], "range": [[6, 3] if one.dashed else [1, 0] for one in lines]},
        "legend": None,
    }
    mark = {"type": "line", "strokeWidth": 1.6, "strokeJoin": "round", "interpolate": "linear", "aria": False}
    return [{"transform": [_of(lines)], "mark": mark, "encoding": {**_axes(chart), "color": color, "strokeDash": dash}}]


def _points(chart: Chart, color: Spec) -> list[Spec]:
    points = [one for one in chart.series if one.style == "points"]
    if not points:
        return []
    shapes = legend.shapes(points)
    shape = {
        "field": "series",
        "type": "nominal",
        "scale": {"domain": list(shapes), "range": list(shapes.values())},
        "legend": None,
    }
    mark = {
        "type": "point",
        "filled": True,
        "size": 46,
        "opacity": 1,
        "stroke": "var(--paper)",
        "strokeWidth": 1,
        "aria": False,
    }
    return [{"transform": [_of(points)], "mark": mark, "encoding": {**_axes(chart), "color": color, "shape": shape}}]


def _regions(chart: Chart) -> list[Spec]:
    values = [{"start": one.start, "end": one.end, "label": one.label} for one in chart.regions]
    if not values:
        return []
    mark = {"type": "rect", "fill": "var(--normal)", "clip": True, "aria": False}
    return [
        {
            "data": {"values": values},
            "mark": mark,
            "encoding": {"x": {"field": "start", "type": "quantitative", "scale": _SHOWN}, "x2": {"field": "end"}},
        }
    ]


def _gaps(chart: Chart) -> list[Spec]:
    places = thinned(chart.gaps, chart.gaps, 200)[0]
    if not places:
        return []
    data = {"values": [{"x": place} for place in places]}
    encoding = {"x": {"field": "x", "type": "quantitative", "scale": _SHOWN}}
    rule = {"type": "rule", "stroke": "var(--bad)", "strokeDash": [2, 3], "clip": True, "aria": False}
    cross = {
        "type": "point",
        "shape": "cross",
        "angle": 45,
        "filled": True,
        "fill": "var(--bad)",
        "size": 60,
        "y": 6,
        "clip": True,
        "aria": False,
    }
    return [{"data": data, "mark": rule, "encoding": encoding}, {"data": data, "mark": cross, "encoding": encoding}]
