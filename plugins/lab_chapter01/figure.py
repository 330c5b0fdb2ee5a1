"""The two pictures of chapter 1: what each position predicts, and one weight through one step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import vl_convert

from lab.runs.records import write_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"


def draw_positions(positions: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Draw, for each position, the most probable tokens, all others together, and the target's share and loss."""
    specification = {
        "$schema": SCHEMA,
        "description": "For each position: probabilities of the likeliest tokens, of all others and of the target.",
        "vconcat": [_position(number, position) for number, position in enumerate(positions)],
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())


def draw_weight(weight: Mapping[str, Any], path: Path) -> None:
    """Draw the followed weight before, after backward and after the update."""
    moments = (("before", "before"), ("after backward", "after_backward"), ("after the update", "after_update"))
    rows = [{"moment": name, "value": weight[key]} for name, key in moments]
    row, column = weight["element"]
    specification = {
        "$schema": SCHEMA,
        "description": "The weight is the same before and after backward; only the update moves it.",
        "title": {
            "text": f"Weight [{row}, {column}] of the first MLP's down projection",
            "subtitle": f"gradient {weight['gradient']:.7g}, m {weight['m']:.4g}, v {weight['v']:.4g}",
        },
        "width": 420,
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
            "y": {"field": "value", "type": "quantitative", "scale": {"zero": False}, "title": "value"},
        },
        "layer": [
            {"mark": {"type": "line", "point": {"size": 80}}},
            {
                "mark": {"type": "text", "dy": -14, "fontSize": 12},
                "encoding": {"text": {"field": "value", "type": "quantitative", "format": ".7f"}},
            },
        ],
    }
    write_bytes(path, vl_convert.vegalite_to_svg(specification).encode())


def _position(number: int, position: Mapping[str, Any]) -> dict[str, Any]:
    target = position["target"]
    bars = [(token["text"], token["probability"], "likeliest") for token in position["top"]]
    bars.append(("all others", position["rest"], "others"))
    bars.append((f"target {target['text']}", target["probability"], "target"))
    # Two tokens may spell alike, so a bar's place is its number and its text only a label.
    rows = [
        {"place": place, "token": repr(text)[1:-1] or "(empty)", "probability": share, "kind": kind}
        for place, (text, share, kind) in enumerate(bars)
    ]
    labels = "{" + ", ".join(f"{row['place']}: {_quoted(str(row['token']))}" for row in rows) + "}"
    return {
        "title": f"Position {number}, after {position['after']!r}: loss {position['loss']:.4f}",
        "width": 420,
        "height": 22 * len(rows),
        "data": {"values": rows},
        "mark": "bar",
        "encoding": {
            "y": {
                "field": "place",
                "type": "ordinal",
                "title": None,
                "axis": {"labelExpr": f"({labels})[datum.value]"},
            },
            "x": {"field": "probability", "type": "quantitative", "scale": {"domain": [0, 1]}, "title": "probability"},
            "color": {
                "field": "kind",
                "type": "nominal",
                "scale": {"domain": ["likeliest", "others", "target"]},
                "title": None,
            },
        },
    }


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
