"""How charts look: calm axes, and the page's own colours by name, so that they follow light, dark and paper."""

from __future__ import annotations

from typing import Any

TEXT = "var(--soft)"


def config() -> dict[str, Any]:
    """The configuration of every chart."""
    font = "system-ui, sans-serif"
    axis = {
        "labelColor": TEXT,
        "titleColor": TEXT,
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
