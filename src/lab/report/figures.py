"""Which charts a run has, and which ones a comparison has."""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from lab.compare.formats import letter
from lab.report import machine
from lab.report.charts import Chart, Region, Series

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.compare.facts import RunFacts

LOSS, OWN_LOSS, NATS = "loss, nats a token", "loss by its own objective", "nats/token"
TRAINING, EVALUATION = 0, 1
GIBIBYTE = 2.0**30


def of_run(run: RunFacts) -> list[Chart]:
    """The charts of one run that have anything to show."""
    found = [loss_over_tokens(run), loss_over_time(run), step_time(run), throughput(run), memory(run)]
    found += [*machine.charts(run), *_more(run)]
    return [chart for chart in found if chart.drawable]


def of_comparison(runs: Sequence[RunFacts]) -> list[Chart]:
    """The same figure of every run in one chart, aligned by tokens."""
    found = [
        _together(
            "loss",
            "Loss over tokens",
            "Training loss as lines, evaluations as points.",
            OWN_LOSS if any(run.own_objective for run in runs) else LOSS,
            NATS,
            runs,
            "loss",
        ),
        _together(
            "step-time",
            "Step time over tokens",
            "Warm-up and observed steps too.",
            "seconds a step",
            "seconds",
            runs,
            "seconds",
        ),
        _together(
            "memory",
            "Memory over tokens",
            "What the allocator held.",
            "GiB allocated",
            "GiB",
            runs,
            "allocated_bytes",
        ),
    ]
    return [chart for chart in found if chart.drawable]


def loss_over_tokens(run: RunFacts) -> Chart:
    """Training loss and evaluations against the targets learnt from."""
    series = (
        Series("training", run.steps.tokens, run.steps.column("loss"), "line", TRAINING),
        Series("evaluation", run.evaluations.tokens(run.steps), run.evaluations.loss, "points", EVALUATION),
    )
    about = "The fixed validation batches are evaluated outside the clock." if len(run.evaluations) else ""
    unit = OWN_LOSS if run.own_objective else LOSS
    return Chart("loss", "Loss over tokens", "tokens", unit, series, about=about, y_format=NATS, x_format="tokens")


def loss_over_time(run: RunFacts) -> Chart:
    """The same against the measured clock, which stands still while a run evaluates or saves."""
    clock = _clock(run)
    at = {0: 0.0, **dict(zip(run.steps.numbers, clock, strict=True))}
    evaluated = [at.get(number, math.nan) for number in run.evaluations.numbers]
    series = (
        Series("training", clock, run.steps.column("loss"), "line", TRAINING),
        Series("evaluation", evaluated, run.evaluations.loss, "points", EVALUATION),
    )
    about = "All step times so far, added up: evaluation and saving are outside the clock."
    unit = OWN_LOSS if run.own_objective else LOSS
    return Chart("loss-time", "Loss over time", "seconds", unit, series, about=about, y_format=NATS, x_format="seconds")


def step_time(run: RunFacts) -> Chart:
    """Seconds of every step, the normal region shaded, warm-up and observed steps as marks."""
    seconds = run.steps.column("seconds")
    series = (
        Series("step", _steps(run), seconds, "line", TRAINING),
        _chosen(run, seconds, "warm-up step", lambda line: bool(line.get("warmup")), 2),
        _chosen(run, seconds, "observed step", lambda line: bool(line.get("observed")), 3),
    )
    about = "Shaded: the normal region, which alone is measured."
    shown = tuple(one for one in series if len(one.x))
    return Chart(
        "step-time", "Step time", "step", "seconds", shown, _normal_regions(run), about, "seconds", from_zero=True
    )


def throughput(run: RunFacts) -> Chart:
    """Targets over time of every single step."""
    pairs = zip(run.steps.column("targets"), run.steps.column("seconds"), strict=True)
    rates = [targets / seconds if seconds > 0 else math.nan for targets, seconds in pairs]
    series = (Series("one step", _steps(run), rates, "line", TRAINING),)
    about = "Each step on its own. The run's figure is a ratio of sums over the shaded region, not a mean of these."
    return Chart(
        "throughput",
        "Throughput",
        "step",
        "tokens a second",
        series,
        _normal_regions(run),
        about,
        "tokens/s",
        from_zero=True,
    )


def memory(run: RunFacts) -> Chart:
    """What the allocator held and had reserved at its peak in every step."""
    series = tuple(
        Series(label, _steps(run), _column(run, name), "line", color, color == 1)
        for color, (label, name) in enumerate((("allocated", "allocated_bytes"), ("reserved", "reserved_bytes")))
    )
    shown = tuple(one for one in series if any(math.isfinite(y) for y in one.y))
    about = "Peak of each step by torch's allocator. Other processes and the CUDA context are not in it."
    return Chart("memory-steps", "Memory", "step", "GiB", shown, about=about, y_format="GiB", from_zero=True)


def _more(run: RunFacts) -> Iterator[Chart]:
    about = "Before clipping."
    series = (Series("gradient norm", _steps(run), run.steps.column("gradient_norm"), "line", TRAINING),)
    yield Chart("gradient-norm", "Gradient norm", "step", "L2 norm", series, about=about)
    for place, name in enumerate(run.steps.own_values[:12]):
        series = (Series(name, _steps(run), run.steps.column(name), "line", TRAINING),)
        yield Chart(f"value-{place}", name, "step", name, series, about="A value of this run's own loop.")


def _together(
    name: str, title: str, about: str, y_title: str, y_format: str, runs: Sequence[RunFacts], column: str
) -> Chart:
    series = []
    for place, run in enumerate(runs):
        series.append(Series(letter(place), run.steps.tokens, _column(run, column), "line", place, place % 2 == 1))
        if column == "loss" and len(run.evaluations):
            at = run.evaluations.tokens(run.steps)
            series.append(Series(f"{letter(place)} evaluation", at, run.evaluations.loss, "points", place))
    return Chart(name, title, "tokens", y_title, tuple(series), about=about, y_format=y_format, x_format="tokens")


def _column(run: RunFacts, name: str) -> list[float]:
    return [value / GIBIBYTE for value in run.steps.column(name)] if name.endswith("_bytes") else run.steps.column(name)


def _chosen(
    run: RunFacts, values: Sequence[float], label: str, chosen: Callable[[dict[str, object]], bool], color: int
) -> Series:
    places = [place for place, line in enumerate(run.steps.lines) if chosen(dict(line))]
    steps = _steps(run)
    return Series(label, [steps[place] for place in places], [values[place] for place in places], "points", color)


def _normal_regions(run: RunFacts) -> tuple[Region, ...]:
    """Stretches of steps that follow one another and are all normal."""
    regions: list[Region] = []
    numbers = run.steps.numbers
    start = previous = None
    for place in run.steps.normal:
        if previous is None or place != previous + 1:
            if start is not None and previous is not None:
                regions.append(Region("normal", numbers[start] - 0.5, numbers[previous] + 0.5))
            start = place
        previous = place
    if start is not None and previous is not None:
        regions.append(Region("normal", numbers[start] - 0.5, numbers[previous] + 0.5))
    return tuple(regions)


def _steps(run: RunFacts) -> list[float]:
    return [float(number) for number in run.steps.numbers]


def _clock(run: RunFacts) -> list[float]:
    return list(accumulate(0.0 if math.isnan(seconds) else seconds for seconds in run.steps.column("seconds")))
