"""What a run learnt and how fast: declared change, loss, step time, throughput, memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lab.compare import formats
from lab.compare.formats import counted
from lab.report import numbers
from lab.report.blocks import Listing, Numbers, Section, Table, Text, plots
from lab.runs import logs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.compare.facts import RunFacts
    from lab.report.blocks import Block
    from lab.report.charts import Chart

    Charts = Mapping[str, Chart]

LOG_LINES = 30


def declared_change(run: RunFacts) -> Section:
    """What this experiment sets differently from what it stands on."""
    links = run.config.get("declarations") or []
    if not links:
        return Section("declared", "Declared change", [Text("None: this experiment stands on its own.")])
    rows = [
        (f"{link.get('base')} \N{RIGHTWARDS ARROW} {link.get('child')}", *_change(change))
        for link in links
        for change in link.get("changes") or [{}]
    ]
    return Section("declared", "Declared change", [Table("", ("from", "key", "before", "after"), rows)])


def trouble(run: RunFacts) -> Section:
    """What went wrong, first: why the run ended, and the end of the log that says so."""
    blocks: list[Block] = []
    reason = run.outcome.get("reason")
    if run.status not in ("completed", "running", "created"):
        blocks.append(Text(f"This run {_ended(run)}{f': {reason}' if reason else '.'}"))
        blocks += _log_end(run)
    blocks += [Text(line) for line in _flaws(run)]
    return Section("trouble", "Before you read on" if run.status == "completed" else "What went wrong", blocks)


def loss(run: RunFacts, charts: Charts) -> Section:
    """Loss over tokens and over time."""
    rows = [
        (f"{step:,}", formats.quantity(at, "tokens"), formats.quantity(value, "nats/token"), _bits(bits))
        for step, at, value, bits in zip(
            run.evaluations.numbers,
            run.evaluations.tokens(run.steps),
            run.evaluations.loss,
            run.evaluations.bits_per_byte,
            strict=True,
        )
    ]
    columns, own = ("step", "tokens", "validation loss", "bits per byte"), run.own_objective
    shown = columns if own is None else columns[:-1]
    table = Table("Evaluations", shown, [row[: len(shown)] for row in rows], shown, folded=len(rows) > 12)
    words = f"The loss measures {own}: it is no cross-entropy in nats a token, nor bits per byte."
    told = [] if own is None else [Text(words)]
    return Section("loss", "Loss", [*told, *_plots(charts, "loss", "loss-time"), *([table] if rows else [])])


def speed(run: RunFacts, charts: Charts) -> Section:
    """Step time, throughput and MFU with its formula."""
    if not len(run.steps):
        return Section("speed", "Speed")
    return Section("speed", "Speed", [Numbers(numbers.speed(run)), *_plots(charts, "step-time", "throughput")])


def more(charts: Charts) -> Section:
    """Gradient norm, and whatever this run's loop added to its lines."""
    names = [name for name in charts if name.startswith(("gradient", "value-"))]
    return Section("values", "More values", _plots(charts, *names))


def memory_steps(charts: Charts) -> list[Block]:
    """Memory of every step."""
    return _plots(charts, "memory-steps")


def _plots(charts: Charts, *names: str) -> list[Block]:
    return plots(charts[name] for name in names if name in charts)


def _change(change: dict[str, object]) -> tuple[str, str, str]:
    return str(change.get("key", "-")), formats.value(change.get("before")), formats.value(change.get("after"))


def _ended(run: RunFacts) -> str:
    word = {"failed": "failed", "stopped": "was stopped", "lost": "was lost"}.get(run.status, run.status)
    stage = run.outcome.get("stage")
    code = run.outcome.get("exit_code")
    return f"{word}{f' in stage {stage}' if stage else ''}{f' with exit code {code}' if code else ''}"


def _log_end(run: RunFacts) -> Iterator[Block]:
    stage = run.outcome.get("stage")
    for path in sorted(run.run.logs.glob(f"{stage}*")) if isinstance(stage, str) and stage.isidentifier() else ():
        try:
            end = logs.end(path, LOG_LINES)
        except OSError as error:
            yield Text(f"logs/{path.name} cannot be read: {error.strerror}.")
            continue
        if end.lines:
            before = f", without its first {formats.size(end.earlier_bytes)}" if end.earlier_bytes else ""
            yield Listing(f"The end of logs/{path.name}{before}", "\n".join(end.lines), folded=False)


def _flaws(run: RunFacts) -> Iterator[str]:
    if run.torn:
        yield f"{counted(run.torn, 'torn line')} of metrics.jsonl {'is' if run.torn == 1 else 'are'} left out."
    if run.steps.missing:
        yield f"{counted(run.steps.missing, 'step')} without a line in metrics.jsonl."
    if run.unreadable:
        yield f"Unreadable, shown as absent: {', '.join(run.unreadable)}."
    broken = [n for n, loss in zip(run.steps.numbers, run.steps.column("loss"), strict=True) if not math.isfinite(loss)]
    if broken:
        yield f"The loss is not a number in {counted(len(broken), 'step')}, first in step {broken[0]:,}."
    if run.summary.get("rebuilt"):
        yield "The worker left no summary: it was rebuilt from the metrics."
    if run.attempt > 1:
        yield f"Resumed: this is attempt {run.attempt}; what earlier ones wrote after the checkpoint is in attempts/."


def _bits(value: float) -> str:
    return formats.quantity(None if math.isnan(value) else value, "bits/byte")
