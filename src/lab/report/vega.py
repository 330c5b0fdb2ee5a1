"""Draws charts with Vega: as a picture inside the page, and as a specification that the page brings to life.

Colours are the page's own variables, so that a chart follows light, dark and paper without being drawn again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from lab.report.charts import thinned
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.report.charts import Chart, Series

Spec = dict[str, Any]
WIDTH, HEIGHT = 720, 250
COLORS = tuple(f"var(--series-{place})" for place in range(6))
RUNTIME = "window.vegaEmbed=vegaEmbed;"
"""What the page calls; the bundle also holds the Vega that it needs, and nothing that loads anything."""
_TEXT = "var(--soft)"
_SHOWN: Spec = {"domain": [{"expr": "shown_from"}, {"expr": "shown_to"}], "nice": False, "zero": False}


@dataclass(frozen=True)
class Drawing:
    """One chart, drawn: the picture for paper and for readers without scripts, and what makes it answer."""

    picture: str
    """An SVG element."""
    spec: Spec
    """A compiled Vega specification."""
    bin_size: int
    """How many values one bin stands for; 1 when every value is drawn."""


def draw(chart: Chart) -> Drawing:
    """Draw a chart."""
    import vl_convert

    lite, bin_size = specification(chart)
    compiled = vl_convert.vegalite_to_vega(lite)
    picture = vl_convert.vega_to_svg(compiled)
    return Drawing(_scalable(picture), compiled, bin_size)


def runtime(store: Path | None = None) -> str:
    """The part of Vega that the page needs, as one script without any address; bundled once a version in `store`."""
    version = metadata.version("vl-convert-python")
    kept = store / "report" / f"vega-{version}.js" if store else None
    if kept is not None and kept.is_file():
        return kept.read_text(encoding="utf-8")
    script = _bundled()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        records.write_bytes(kept, script.encode())
    return script


@cache
def _bundled() -> str:
    import vl_convert

    script: str = vl_convert.javascript_bundle(RUNTIME)
    return script.replace("</script", "<\\/script")


def specification(chart: Chart) -> tuple[Spec, int]:
    """The chart as Vega-Lite, and how many values the largest bin stands for."""
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
        "transform": [
            {"filter": "(shown_from === null || datum.x >= shown_from) && (shown_to === null || datum.x <= shown_to)"}
        ],
        "layer": layers,
        "config": _config(),
    }, bin_size


def _extent(chart: Chart) -> tuple[float, float]:
    places = [x for one in chart.series for x in one.x if math.isfinite(x)]
    low, high = (_rounded(end(places, default=0.0)) for end in (min, max))
    return (low, high) if high > low else (low - 1, high + 1)


def _values(chart: Chart) -> tuple[list[Spec], int]:
    found: list[Spec] = []
    bin_size = 1
    for one in chart.series:
        x, y, size = thinned(one.x, one.y)
        bin_size = max(bin_size, size)
        found += [
            {"series": one.label, "x": _json(place), "y": _json(value)} for place, value in zip(x, y, strict=True)
        ]
    return found, bin_size


def _json(value: float) -> float | None:
    return _rounded(value) if math.isfinite(value) else None


def _rounded(value: float) -> float:
    """Seven digits are more than a screen shows, and half the bytes."""
    return float(f"{value:.7g}")


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
    mark = {
        "type": "point",
        "filled": True,
        "size": 42,
        "opacity": 1,
        "stroke": "var(--paper)",
        "strokeWidth": 1,
        "aria": False,
    }
    return [{"transform": [_of(points)], "mark": mark, "encoding": {**_axes(chart), "color": color}}]


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


def _config() -> Spec:
    font = "system-ui, sans-serif"
    axis = {
        "labelColor": _TEXT,
        "titleColor": _TEXT,
        "labelFont": font,
        "titleFont": font,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": "var(--line)",
        "domainColor": "var(--line)",
        "tickColor": "var(--line)",
        "domain": False,
        "ticks": False,
        "labelPadding": 6,
        "titlePadding": 8,
    }
    legend = {
        "orient": "top",
        "direction": "horizontal",
        "labelColor": "var(--ink)",
        "labelFont": font,
        "labelFontSize": 12,
        "symbolStrokeWidth": 2,
        "offset": 4,
        "columns": 6,
        "labelLimit": 320,
    }
    return {
        "view": {"stroke": None},
        "axis": axis,
        "axisX": {"grid": False, "domain": True},
        "legend": legend,
        "aria": False,
    }


def _scalable(picture: str) -> str:
    """Let the page decide the width: the drawing keeps its proportions."""
    return picture.replace("<svg ", '<svg role="presentation" focusable="false" ', 1)
