"""How a chart's legend names its series: a line by a stroke, points by their shape, so that no colour is needed.

Vega-Lite gives every name of a chart of lines and points the same dot; this is laid over what it compiles.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.report.charts import Series

SHAPES = ("circle", "diamond", "square", "triangle-up", "triangle-down", "cross")
"""Of one chart's sets of points, in their order."""


def shapes(series: Sequence[Series]) -> dict[str, str]:
    """The shape of each set of points, by its label."""
    points = [one.label for one in series if one.style == "points"]
    return {label: SHAPES[place % len(SHAPES)] for place, label in enumerate(points)}


def put_into(compiled: dict[str, Any], series: Sequence[Series]) -> None:
    """Let the legend of a compiled Vega specification show each series as it is drawn."""
    of = json.dumps(shapes(series))
    dashed = json.dumps([one.label for one in series if one.style == "line" and one.dashed])
    point, color = f"{of}[datum.value]", "scale('color', datum.value)"
    for legend in compiled.get("legends", ()):
        legend["encode"] = {
            "symbols": {
                "update": {
                    "shape": {"signal": f"{point} || 'stroke'"},
                    "size": {"signal": f"{point} ? 60 : 400"},
                    "fill": {"signal": f"{point} ? {color} : 'transparent'"},
                    "stroke": {"signal": color},
                    "strokeDash": {"signal": f"indexof({dashed}, datum.value) < 0 ? [1, 0] : [6, 3]"},
                    "opacity": {"value": 1},
                }
            }
        }
