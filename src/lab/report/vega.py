"""Draws charts with Vega: as a picture inside the page, and as a specification that the page brings to life."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

from lab.report import legend
from lab.report.specification import Spec, drawn, specification
from lab.runs import records

if TYPE_CHECKING:
    from pathlib import Path

    from lab.report.charts import Chart

RUNTIME = "window.vegaEmbed=vegaEmbed;"
"""What the page calls; the bundle also holds the Vega that it needs, and nothing that loads anything."""
BUNDLE = "import sys, vl_convert; sys.stdout.write(vl_convert.javascript_bundle(sys.argv[1]))"


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
    legend.put_into(compiled, drawn(chart).series)
    picture = vl_convert.vega_to_svg(compiled)
    return Drawing(_scalable(picture), compiled, bin_size)


def begin(store: Path | None = None) -> None:
    """Let another process bundle what `runtime` will be asked for, while this one reads records and draws."""
    kept = _kept(store)
    if kept is None or not kept.is_file():
        _bundling()


def runtime(store: Path | None = None) -> str:
    """The part of Vega that the page needs, as one script without any address; bundled once a version in `store`."""
    kept = _kept(store)
    if kept is not None and kept.is_file():
        return kept.read_text(encoding="utf-8")
    script = _bundling().result()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        records.write_bytes(kept, script.encode())
    return script


def _kept(store: Path | None) -> Path | None:
    version = metadata.version("vl-convert-python")
    return store / "report" / f"vega-{version}.js" if store else None


@cache
def _bundling() -> Future[str]:
    """A process of its own, because bundling holds the interpreter's lock for two seconds."""
    with_it = ThreadPoolExecutor(1, "bundling")
    bundle = with_it.submit(_bundled)
    with_it.shutdown(wait=False)
    return bundle


def _bundled() -> str:
    command = [sys.executable, "-P", "-X", "utf8", "-c", BUNDLE, RUNTIME]
    script = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True).stdout
    return script.replace("</script", "<\\/script")


def _scalable(picture: str) -> str:
    """Let the page decide the width: the drawing keeps its proportions."""
    return picture.replace("<svg ", '<svg role="presentation" focusable="false" ', 1)
