"""The figures at the head of a page, each saying whether it was measured, derived, declared or is unknown."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from lab.compare import busy, costs, formats, measures, statistics
from lab.compare.formats import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.compare.facts import RunFacts
    from lab.compare.measures import Known


@dataclass(frozen=True)
class Number:
    """One figure: what it is, how it is known, and from what."""

    label: str
    text: str
    known: Known
    how: str


def headline(run: RunFacts) -> list[Number]:
    """The figures that a reader looks for first."""
    return [_validation(run), _training(run), _rate(run), _utilisation(run), _peak(run), _elapsed(run), *_cost(run)]


def speed(run: RunFacts) -> list[Number]:
    """Everything about speed in one table."""
    seconds = run.steps.column("seconds")
    normal = [seconds[place] for place in run.steps.normal]
    targets = run.steps.column("targets")
    overall = statistics.rate(targets, seconds)
    peak, source = run.measured.get("peak_flops"), run.measured.get("peak_source")
    return [
        _rate(run),
        _interval(run),
        *_taken_by_others(run),
        _quantity("median normal step", median(normal) if normal else None, "seconds", "derived", ""),
        _quantity("overall", overall, "tokens/s", "derived", "warm-up and observed steps too"),
        _utilisation(run),
        Number("peak of the device", f"{peak / 1e12:,.1f} TFLOP/s", "declared", str(source or ""))
        if isinstance(peak, (int, float))
        else Number("peak of the device", "unknown", "unknown", str(run.measured.get("mfu_reason") or "not recorded")),
        _formula(run),
    ]


def _taken_by_others(run: RunFacts) -> Iterator[Number]:
    """What explains a slow run: only where it is much."""
    share = busy.others(run)
    if share is not None and share >= busy.HEAVY:
        how = "of all cores, by the samples between measured steps: it may have cost speed"
        yield _quantity("taken by other processes", share, "share", "measured", how)


def _formula(run: RunFacts) -> Number:
    """What the loop notes of how it counts the FLOPs that its steps state."""
    label, noted = "model FLOPs of a step", run.environment.get("notes", {}).get("flops")
    if isinstance(noted, dict) and noted.get("formula"):
        return Number(label, str(noted["formula"]), "declared", str(noted.get("meaning") or "as its loop counts them"))
    return Number(label, "unknown", "unknown", "the loop notes no formula")


def cost(run: RunFacts) -> list[Number]:
    """What a rented run cost, as a whole and for its training alone; nothing for a run that has no price."""
    figures = (
        ("cost", "dollars", costs.dollars),
        ("cost per million tokens", "dollars", costs.per_million_tokens),
        ("tokens per dollar", "tokens/dollar", costs.tokens_per_dollar),
    )
    return [
        _quantity(f"{prefix}{name}", value, unit, "derived", how)
        for name, unit, of in figures
        for part, prefix, how in measures.PARTS
        if (value := of(run, part)) is not None
    ]


def tokens(run: RunFacts) -> list[Number]:
    """Cached and processed tokens apart: one is what was prepared, the other what was learnt from."""
    found = run.summary.get("tokens") or {}
    names = (("cached_train", "cached for training"), ("cached_validation", "cached for validation"))
    numbers = [_quantity(label, _float(found.get(key)), "tokens", "measured", "token cache") for key, label in names]
    processed = run.steps.tokens[-1] if len(run.steps) else None
    return [*numbers, _quantity("processed", processed, "tokens", "measured", "targets of all steps")]


def _validation(run: RunFacts) -> Number:
    losses = run.evaluations.loss
    if not losses:
        return Number("validation loss", "unknown", "unknown", "nothing was evaluated")
    unit = "nats a token" if run.own_objective is None else f"by {run.own_objective}"
    how = f"after step {run.evaluations.numbers[-1]:,}, {unit}"
    return _quantity("validation loss", losses[-1], "nats/token", "measured", how)


def _training(run: RunFacts) -> Number:
    losses = run.steps.column("loss")
    if not losses:
        return Number("training loss", "unknown", "unknown", "no step was recorded")
    broken = sum(not math.isfinite(loss) for loss in losses)
    gaps = f"; no number in {counted(broken, 'step')}" if broken else ""
    how = f"step {run.steps.numbers[-1]:,}{gaps}"
    return _quantity("training loss", losses[-1], "nats/token", "measured", how)


def _rate(run: RunFacts) -> Number:
    how = f"all targets over all time of {counted(len(run.steps.normal), 'normal step')}"
    return _quantity("tokens per second", measures.tokens_per_second(run), "tokens/s", "derived", how)


def _interval(run: RunFacts) -> Number:
    places = run.steps.normal
    targets, seconds = run.steps.column("targets"), run.steps.column("seconds")
    one = statistics.rate_interval([targets[p] for p in places], [seconds[p] for p in places])
    text = formats.interval(one, "tokens/s") or "unknown"
    how = statistics.LABEL if one else f"fewer than {statistics.FEWEST_STEPS} normal steps"
    return Number("95 % interval of it", text, "derived" if one else "unknown", how)


def _utilisation(run: RunFacts) -> Number:
    share = measures.model_flops_utilisation(run)
    if share is None:
        reason = str(run.measured.get("mfu_reason") or "the peak of the device is not known")
        return Number("MFU", "unknown", "unknown", reason)
    return _quantity("MFU", share, "share", "derived", "model FLOPs over time and the device's dense peak")


def _peak(run: RunFacts) -> Number:
    peak = _float(run.measured.get("peak_allocated_bytes"))
    if peak is None:
        why = "the device has no allocator that counts" if run.device else "no device was recorded"
        return Number("peak memory", "unknown", "unknown", why)
    reserved = formats.quantity(_float(run.measured.get("peak_reserved_bytes")), "bytes")
    return _quantity("peak memory", peak, "bytes", "measured", f"allocated in a normal step; {reserved} reserved")


def _elapsed(run: RunFacts) -> Number:
    seconds = _float(run.summary.get("elapsed_seconds"))
    return _quantity("total elapsed", seconds, "seconds", "measured", "the worker from start to end, all included")


def _cost(run: RunFacts) -> list[Number]:
    return [number for number in cost(run) if number.label in ("cost", "cost per million tokens")]


def _quantity(label: str, value: float | None, unit: str, known: Known, how: str) -> Number:
    if value is None:
        return Number(label, "unknown", "unknown", "not recorded")
    return Number(label, formats.quantity(value, unit), known, how)


def _float(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None
