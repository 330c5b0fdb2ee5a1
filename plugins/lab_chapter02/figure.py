"""The picture of chapter 2: how far each way of accumulating is from the gradient of the whole batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import vl_convert

from lab.runs.records import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SMALLEST = 1e-9
"""A logarithmic axis has no zero: an exact match is drawn here."""


def draw(history: Sequence[Mapping[str, float]], counts: Sequence[int], path: Path) -> None:
    """Draw the two relative errors over the steps, on a logarithmic axis."""
    rows = [
        {"step": step, "way": way, "error": max(line[key], SMALLEST)}
        for step, line in enumerate(history, start=1)
        for way, key in (("sum, divided once", "right_gradient_error"), ("mean of means", "wrong_gradient_error"))
    ]
    targets = ", ".join(map(str, counts))
    specification = {
        "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
        "description": "Relative distance of two accumulated gradients from the gradient of the whole batch, by step.",
        "title": f"Micro-batches of {targets} targets",
        "width": 560,
        "height": 260,
        "data": {"values": rows},
        "mark": {"type": "line", "point": True},
        "encoding": {
            "x": {"field": "step", "type": "quantitative", "title": "step"},
            "y": {
                "field": "error",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False},
                "title": "relative distance from the whole batch's gradient",
                "axis": {"format": ".0e", "tickCount": 6},
            },
            "color": {"field": "way", "type": "nominal", "title": None},
        },
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())
