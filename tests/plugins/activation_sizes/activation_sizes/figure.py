"""The picture: one line a step, from the first layer to the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

import vl_convert

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def draw(sizes: Mapping[int, Sequence[float]], layer: str) -> str:
    """SVG of the root mean square (no unit) over the layer's place in the order of computation."""
    rows = [
        {"step": str(step), "layer": place, "size": size}
        for step, line in sizes.items()
        for place, size in enumerate(line, start=1)
    ]
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": f"Root mean square of the output of each {layer}, in the order of computation, by step.",
        "width": 560,
        "height": 240,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "layer", "type": "quantitative", "title": f"{layer}, in order", "axis": {"tickMinStep": 1}},
            "y": {"field": "size", "type": "quantitative", "title": "root mean square of its output"},
            "color": {"field": "step", "type": "nominal", "sort": None, "title": "step"},
        },
    }
    svg: str = vl_convert.vegalite_to_svg(specification)
    return svg
