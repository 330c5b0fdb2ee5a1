"""The figures of runs side by side, each saying how it is known and which direction is better."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Literal

from lab.compare import alignment, costs
from lab.compare.absences import PEAK
from lab.compare.formats import counted
from lab.compare.statistics import Interval, rate, rate_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence, Sized

    from lab.compare.alignment import Point
    from lab.compare.costs import Part
    from lab.compare.facts import RunFacts

PARTS: tuple[tuple[Part, str, str], ...] = (
    ("all", "", "of the whole run, what is around the training included"),
    ("train", "training ", "of the training phase alone: what a longer run comes to"),
)
Known = Literal["measured", "derived", "declared", "unknown"]


@dataclass(frozen=True)
class Measure:
    """One figure of every run, in the order of the runs; None where a run does not have it."""

    name: str
    question: str | None
    """Whose verdict it falls under: "loss", "speed" or "memory"; None for a figure that is only shown."""
    unit: str
    better: Literal["lower", "higher"] | None
    known: Known
    how: str
    values: tuple[float | None, ...]
    intervals: tuple[Interval | None, ...] = ()
    absent: str = "missing in"
    """What a run that does not have it is told; its letter follows."""


def measures(runs: Sequence[RunFacts]) -> tuple[Measure, ...]:
    """Every figure that at least one of the runs has."""
    found = [*_loss(runs), *_speed(runs), *_machine(runs), *_memory(runs), *_cost(runs)]
    return tuple(measure for measure in found if any(value is not None for value in measure.values))


def tokens_per_second(run: RunFacts) -> float | None:
    """All targets of the normal region over all its time."""
    return rate(*_normal(run, "targets"))


def model_flops_utilisation(run: RunFacts) -> float | None:
    """Model FLOPs of the normal region over its time and the device's peak; None without a known peak."""
    peak = run.measured.get("peak_flops")
    achieved = rate(*_normal(run, "flops"))
    return achieved / peak if peak and achieved is not None else None


def tokenizers_differ(runs: Sequence[RunFacts]) -> bool:
    """True when a token is not the same piece of text in all runs."""
    found = [run.manifest.get("tokenizer") or run.experiment.get("data", {}).get("tokenizer") or {} for run in runs]
    return len({one.get("sha256") or (one.get("name"), one.get("revision")) for one in found}) > 1


def _loss(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    evaluated = alignment.common_tokens([run for run in runs if len(run.evaluations)], evaluated=True)
    trained = alignment.common_tokens(runs, evaluated=False)
    if evaluated is not None:
        yield _read_off("validation loss", "nats/token", runs, evaluated, alignment.validation_loss, _evaluations)
        if not any(run.own_objective for run in runs):
            yield _read_off("bits per byte", "bits/byte", runs, evaluated, alignment.bits_per_byte, _evaluations)
    if trained is not None:
        yield _read_off("training loss", "nats/token", runs, trained, alignment.training_loss, _steps)


def _evaluations(run: RunFacts) -> Sized:
    return run.evaluations


def _steps(run: RunFacts) -> Sized:
    return run.steps


def _read_off(
    name: str,
    unit: str,
    runs: Sequence[RunFacts],
    tokens: float,
    value: Callable[[RunFacts, float], Point],
    recorded: Callable[[RunFacts], Sized],
) -> Measure:
    """A curve's figure at so many tokens; `recorded` are the lines of a run that it is read from."""
    points = [value(run, tokens) for run in runs]
    there = [point for point in points if point.value is not None]
    exact = all(point.exact for point in there) and unit != "bits/byte"
    where = f"at {tokens:,.0f} tokens"
    how = where if all(point.exact for point in there) else f"{where}, on the line between neighbouring points"
    values = tuple(
        None if point.value is None or (_nan(point.value) and unit == "bits/byte") else point.value for point in points
    )
    later = all(len(recorded(run)) for run, point in zip(runs, points, strict=True) if point.value is None)
    absent = "no value at so few tokens in" if later else "missing in"
    return Measure(name, "loss", unit, "lower", "measured" if exact else "derived", how, values, absent=absent)


def _speed(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    regions = [_normal(run, "targets") for run in runs]
    steps = list(dict.fromkeys(len(seconds) for _, seconds in regions))
    counts = counted(steps[0], "normal step") if len(steps) == 1 else f"{' and '.join(map(str, steps))} normal steps"
    how = f"all targets over all time of the {counts}"
    intervals = tuple(rate_interval(*region) for region in regions)
    rates = tuple(rate(*region) for region in regions)
    yield Measure("tokens per second", "speed", "tokens/s", "higher", "derived", how, rates, intervals)
    medians = tuple(median(seconds) if seconds else None for _, seconds in regions)
    yield Measure("median step", "speed", "seconds", "lower", "derived", f"of the {counts}", medians)
    utilisation = tuple(model_flops_utilisation(run) for run in runs)
    yield Measure("MFU", "speed", "share", "higher", "derived", "model FLOPs over time and peak", utilisation)
    overall = tuple(rate(run.steps.column("targets"), run.steps.column("seconds")) for run in runs)
    yield Measure(
        "overall tokens per second", "speed", "tokens/s", None, "derived", "warm-up and observed steps too", overall
    )
    elapsed = tuple(_number(run.summary.get("elapsed_seconds")) for run in runs)
    yield Measure(
        "total elapsed", "speed", "seconds", None, "measured", "start to end of the worker, all included", elapsed
    )
    totals = [run.steps.tokens[-1] if len(run.steps) else None for run in runs]
    each = tuple(took / all_ * 1e6 if took and all_ else None for took, all_ in zip(elapsed, totals, strict=True))
    yield Measure(
        "elapsed per million tokens", "speed", "seconds", None, "derived", "all elapsed over all targets", each
    )


def _machine(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    """What explains a speed and is none: a machine that others used too shows a processor that the run had less of."""
    sampled = (
        ("processor used", "processor_percent", "share", 0.01, "of one core"),
        ("others' processors", "others_percent", "share", 0.01, "of all cores, taken by other processes"),
        ("GPU busy", "gpu_percent", "share", 0.01, "of its time"),
        ("GPU power", "gpu_watts", "watts", 1.0, "of the whole board"),
    )
    for name, column, unit, factor, of in sampled:
        kept = (run.steps.measured_samples(column) for run in runs)
        means = tuple(factor * fmean(values) if values else None for values in kept)
        yield Measure(name, None, unit, None, "measured", f"{of}, mean of the samples between measured steps", means)


def _memory(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    for name, key in (("peak allocated", PEAK), ("peak reserved", "peak_reserved_bytes")):
        values = tuple(_number(run.measured.get(key)) for run in runs)
        yield Measure(name, "memory", "bytes", "lower", "measured", "largest of the normal steps", values)


def _cost(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    figures = (
        ("cost", "dollars", costs.dollars),
        ("tokens per dollar", "tokens/dollar", costs.tokens_per_dollar),
        ("cost per million tokens", "dollars", costs.per_million_tokens),
    )
    for name, unit, of in figures:
        for part, prefix, how in PARTS:
            values = tuple(of(run, part) for run in runs)
            yield Measure(f"{prefix}{name}", None, unit, None, "derived", how, values, absent="no price is known for")
    yield from _loss_at_equal_dollars(runs)


def _loss_at_equal_dollars(runs: Sequence[RunFacts]) -> Iterator[Measure]:
    """What the same money bought: the curves read off over what their steps cost, where every run has a price."""
    evaluated = all(len(run.evaluations) for run in runs)
    curves = [alignment.over_dollars(run, evaluated=evaluated) for run in runs]
    ends = [max(filter(math.isfinite, axis), default=0.0) for axis, _ in curves]
    end = min(ends)
    if end <= 0:
        return
    values = tuple(alignment.read_off(axis, losses, end).value for axis, losses in curves)
    name = f"{'validation' if evaluated else 'training'} loss at equal dollars"
    how = f"when the steps alone had cost ${end:.4f}, on the line between neighbouring points"
    yield Measure(name, "loss", "nats/token", "lower", "derived", how, values)


def _normal(run: RunFacts, name: str) -> tuple[list[float], list[float]]:
    amounts, seconds, places = run.steps.column(name), run.steps.column("seconds"), run.steps.measured
    return [amounts[place] for place in places], [seconds[place] for place in places]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _nan(value: float) -> bool:
    return math.isnan(value)
