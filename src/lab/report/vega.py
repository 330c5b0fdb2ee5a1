"""Draws charts with Vega: as a picture inside the page, and as a specification that the page brings to life."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from lab.report.specification import Spec, specification
from lab.runs import records

if TYPE_CHECKING:
    from pathlib import Path

    from lab.report.charts import Chart

RUNTIME = "window.vegaEmbed=vegaEmbed;"
"""What the page calls; the bundle also holds the Vega that it needs, and nothing that loads anything."""


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


def _scalable(picture: str) -> str:
    """Let the page decide the width: the drawing keeps its proportions."""
    return picture.replace("<svg ", '<svg role="presentation" focusable="false" ', 1)
