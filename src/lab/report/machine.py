"""What the run took of its machine, sampled between steps: processor, GPU, memory and power."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lab.report.blocks import Section, Text, plots
from lab.report.charts import Chart, Series

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.compare.facts import RunFacts

GIBIBYTE = 2.0**30
BUSY = (("processor_percent", "processor"), ("gpu_percent", "GPU"))
HELD = (("process_bytes", "the worker's process"), ("gpu_memory_bytes", "on the GPU"))
POWER = (("gpu_watts", "GPU"),)
WHOSE = "The processor in percent of one core, so that two busy cores are 200; a GPU in percent of its time."
HOLDERS = "By the worker's process in main memory; on a GPU by whoever holds it."
BETWEEN = "Sampled between steps, once a second at most; a step without a sample is left out."


def charts(run: RunFacts) -> Iterator[Chart]:
    """The charts of what was sampled; those of a run from before, or of no GPU, are empty."""
    busy = _sampled(run, BUSY)
    yield Chart("machine-busy", "Busy", "step", "percent", busy, about=WHOSE, y_format="percent", from_zero=True)
    held = _sampled(run, HELD, GIBIBYTE)
    yield Chart("machine-memory", "Memory held", "step", "GiB", held, about=HOLDERS, y_format="GiB", from_zero=True)
    power = _sampled(run, POWER)
    yield Chart("machine-power", "Power", "step", "watts", power, about="Of the GPU.", y_format="watts", from_zero=True)


def section(drawn: Mapping[str, Chart]) -> Section:
    """The section of those that have anything to show."""
    found = plots(chart for name, chart in drawn.items() if name.startswith("machine-"))
    return Section("machine", "Machine", [Text(BETWEEN), *found] if found else [])


def _sampled(run: RunFacts, columns: tuple[tuple[str, str], ...], unit: float = 1.0) -> tuple[Series, ...]:
    found = []
    for color, (name, label) in enumerate(columns):
        pairs = zip(run.steps.numbers, run.steps.column(name), strict=True)
        kept = [(float(step), value / unit) for step, value in pairs if math.isfinite(value)]
        if kept:
            x, y = zip(*kept, strict=True)
            found.append(Series(label, x, y, "line", color, color == 1))
    return tuple(found)
