"""The two pictures of chapter 1: what each position predicts, and one weight through one step."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import vl_convert

from lab.runs.records import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
MOST_POSITIONS = 12
"""More make a picture that nobody reads; the record has them all."""
LIKELY, OTHERS, TARGET = "#4c78a8", "#b3b3b3", "#d1495b"
# A browser's letters are wider than those the drawing was measured with: the margins leave room for them.
MARGINS = {"left": 16, "right": 40, "top": 8, "bottom": 8}
LARGE_LETTERS = {
    "axis": {"labelFontSize": 13, "titleFontSize": 13, "titleFontWeight": "normal", "labelLimit": 140},
    "title": {"fontSize": 14, "subtitleFontSize": 13, "anchor": "start", "frame": "bounds"},
    "text": {"fontSize": 13},
    "font": "sans-serif",
}
"""A phone shows the picture at three quarters of its size."""


def draw_positions(positions: Sequence[Mapping[str, Any]], model: str, path: Path) -> None:
    """Draw, for each position, the most probable tokens, all others together, and the target with its loss."""
    shown = positions[:MOST_POSITIONS]
    left_out = len(positions) - len(shown)
    note = [f"{left_out} more positions are in chapter01.json."] if left_out else []
    specification = {
        "$schema": SCHEMA,
        "description": "For each position: probabilities of the likeliest tokens, of all others and of the target.",
        "title": {"text": "What comes next?", "subtitle": [*_wrapped(model), *note], "offset": 16},
        "padding": MARGINS,
        "vconcat": [_position(number, position) for number, position in enumerate(shown)],
        "spacing": 28,
        "config": LARGE_LETTERS,
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())


def draw_weight(weight: Mapping[str, Any], model: str, path: Path) -> None:
    """Draw the followed weight before, after backward and after the update."""
    moments = (("before", "before"), ("after backward", "after_backward"), ("after update", "after_update"))
    rows = [{"moment": name, "value": weight[key], "text": f"{weight[key]:.7f}"} for name, key in moments]
    row, column = weight["element"]
    found = [f"gradient {weight['gradient']:.7g}", f"m {weight['m']:.4g}, v {weight['v']:.4g}"]
    specification = {
        "$schema": SCHEMA,
        "description": "The weight is the same before and after backward; only the update moves it.",
        "title": {
            "text": f"Weight [{row}, {column}] of the first down projection",
            "subtitle": [*_wrapped(model), *found],
            "offset": 16,
        },
        "padding": MARGINS,
        "width": 330,
        "height": 220,
        "data": {"values": rows},
        "encoding": {
            "x": {
                "field": "moment",
                "type": "ordinal",
                "sort": [name for name, _ in moments],
                "title": None,
                "axis": {"labelAngle": 0},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "scale": {"zero": False, "padding": 30},
                "title": None,
                "axis": {"tickCount": 5, "format": ".7~g"},
            },
        },
        "layer": [
            {"mark": {"type": "line", "point": {"size": 80}, "color": LIKELY}},
            _values("datum.moment != 'after update'", -14),
            _values("datum.moment == 'after update'", 18),
        ],
        "config": LARGE_LETTERS,
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())


def _values(which: str, below: int) -> dict[str, Any]:
    """The numbers at the points, where the falling line leaves room."""
    return {
        "transform": [{"filter": which}],
        "mark": {"type": "text", "dy": below},
        "encoding": {"text": {"field": "text", "type": "nominal"}},
    }


def _position(number: int, position: Mapping[str, Any]) -> dict[str, Any]:
    target = position["target"]
    bars = [(_quoted(token["text"]), token["probability"], LIKELY) for token in position["top"]]
    bars.append(("all others", position["rest"], OTHERS))
    bars.append((f"target {_quoted(target['text'])}", target["probability"], TARGET))
    # Two tokens may spell alike, so a bar's place is its number and its text only a label.
    rows = [
        {"place": place, "probability": share, "text": f"{share:.3g}", "color": color}
        for place, (_, share, color) in enumerate(bars)
    ]
    labels = json.dumps([label for label, _, _ in bars])
    return {
        "title": {
            "text": f"Position {number}, after {_quoted(position['after'])}",
            "subtitle": f"loss of the target: -ln({target['probability']:.3g}) = {position['loss']:.4f}",
        },
        "width": 250,
        "height": 24 * len(rows),
        "data": {"values": rows},
        "encoding": {
            "y": {
                "field": "place",
                "type": "ordinal",
                "title": None,
                "axis": {"labelExpr": f"{labels}[datum.value]", "ticks": False, "domain": False, "minExtent": 145},
            },
            "x": {
                "field": "probability",
                "type": "quantitative",
                # Room for the number at the end of a bar that is as long as it can be.
                "scale": {"domain": [0, 1.2]},
                "title": "probability",
                "axis": {"values": [0, 0.5, 1], "format": "~g"},
            },
        },
        "layer": [
            {"mark": "bar", "encoding": {"color": {"field": "color", "type": "nominal", "scale": None}}},
            {
                "mark": {"type": "text", "align": "left", "dx": 4},
                "encoding": {"text": {"field": "text", "type": "nominal"}},
            },
        ],
    }


def _quoted(text: str) -> str:
    """A token as it is written in code: its first space shows, and so does a line end."""
    return json.dumps(text, ensure_ascii=False)


def _wrapped(text: str, width: int = 46) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width)
