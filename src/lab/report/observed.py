"""What observers and loops left: the trace, memory by phase and category, pictures and tables."""

from __future__ import annotations

import math
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from lab.compare import formats
from lab.compare.facts import flattened
from lab.errors import LabError
from lab.report import comma_separated, embedding
from lab.report.blocks import Numbers, Section, Table, Text, bars
from lab.report.numbers import Number
from lab.report.training import memory_steps
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lab.compare.facts import RunFacts
    from lab.report.blocks import Block
    from lab.report.charts import Chart

PROFILE, SNAPSHOT = "kernels", "peak"
ROWS = 200
MOST_BARS = 20


def memory(run: RunFacts, charts: Mapping[str, Chart]) -> Section:
    """Memory of every step, and the snapshot's peak by phase and by category."""
    blocks: list[Block] = memory_steps(charts)
    for record in _json_artifacts(run, "events"):
        peak = record.get("peak")
        if not isinstance(peak, dict):
            blocks.append(Text(f"Snapshot: {record.get('reason', 'nothing was recorded')}."))
            continue
        blocks.append(Text(f"Snapshot of step {record.get('step')}: peak {_size(peak.get('bytes'))}."))
        for key, title in (
            ("by_phase", "Peak by phase"),
            ("by_category", "Peak by category"),
            ("by_line", "Peak by line"),
        ):
            blocks += _sizes(title, peak.get(key))
    return Section("memory", "Memory", blocks)


def trace(run: RunFacts) -> Section:
    """How busy the device was, where it waited, which kernels took the time, and the file for a viewer."""
    blocks: list[Block] = []
    for record in _json_artifacts(run, "operators"):
        busy = record.get("busy_share")
        number = Number(
            "busy share of the GPU",
            formats.quantity(busy, "share") if isinstance(busy, float) else "unknown",
            "derived" if isinstance(busy, float) else "unknown",
            str(record.get("busy_reason", "")),
        )
        blocks.append(Numbers([number]))
        for key, title in (("kernels", "Top kernels"), ("operators", "Top operators")):
            blocks += _times(title, record.get(key))
        blocks += _gaps(record.get("gaps"))
    files = [line for line in run.artifacts if line.get("kind") in ("trace", "snapshot")]
    if files:
        rows = [(str(line.get("title")), str(line.get("path")), _file_size(run, line)) for line in files]
        note = "Open a trace at ui.perfetto.dev or in chrome://tracing, a snapshot at pytorch.org/memory_viz."
        blocks.append(Table("For a viewer", ("what", "file", "size"), rows, ("size",), note))
    return Section("trace", "Trace", blocks)


def pictures(run: RunFacts) -> Section:
    """What the run's loop and observers drew: in a chapter, what it is about."""
    drawn = [line for line in run.artifacts if line.get("kind") == "figure"]
    blocks = [embedding.block(path, _title(line)) if (path := _path(run, line)) else _gone(line) for line in drawn]
    return Section("pictures", "What the run drew", blocks)


def artifacts(run: RunFacts) -> Section:
    """Tables and records of the run's loop and observers."""
    blocks: list[Block] = []
    for line in run.artifacts:
        if line.get("kind") == "figure":
            continue
        path, title = _path(run, line), _title(line)
        if path is None:
            blocks.append(_gone(line))
        elif line.get("kind") == "table" and path.suffix.lower() == ".csv":
            blocks.append(comma_separated.table(path, title))
        elif line.get("kind") in ("json", "table"):
            blocks += _values(path, title)
    return Section("artifacts", "What the loop and its observers left", blocks)


def _json_artifacts(run: RunFacts, key: str) -> list[dict[str, Any]]:
    """Records of kind json that hold `key`: what tells a profile from a snapshot without knowing their names."""
    found = []
    for line in run.artifacts:
        path = _path(run, line) if line.get("kind") == "json" else None
        record = _record(path) if path else None
        if record is not None and key in record:
            found.append(record)
    return found


def _record(path: Path) -> dict[str, Any] | None:
    try:
        return records.read_json(path)
    except LabError:
        return None


def _path(run: RunFacts, line: dict[str, Any]) -> Path | None:
    """The artifact's file, if it is one below the run directory."""
    name = PurePosixPath(str(line.get("path", "")))
    path = run.run.path / name
    inside = not name.is_absolute() and ".." not in name.parts
    return path if inside and path.is_file() and not path.is_symlink() else None


def _title(line: dict[str, Any]) -> str:
    return str(line.get("title") or line.get("path"))


def _gone(line: dict[str, Any]) -> Text:
    return Text(f"{_title(line)}: the file {line.get('path')} is not there.")


def _values(path: Path, title: str) -> list[Block]:
    record = _record(path)
    if record is None:
        return [Text(f"{title}: {path.name} is not a readable JSON record.")]
    if "operators" in record or "events" in record:
        return []  # shown as trace and memory
    rows = [(key, formats.value(value)) for key, value in flattened(record).items()]
    return [
        Table(
            title,
            ("key", "value"),
            rows[:ROWS],
            folded=True,
            note=f"{path.name}, {formats.counted(len(rows), 'value')}",
        )
    ]


def _sizes(title: str, parts: object) -> list[Block]:
    amounts = _amounts(parts, "bytes")
    return [bars(title, [(name, size, formats.size(size)) for name, size in amounts])] if amounts else []


def _times(title: str, parts: object) -> list[Block]:
    amounts = _amounts(parts, "seconds")
    return (
        [bars(title, [(name, spent, formats.quantity(spent, "seconds")) for name, spent in amounts])] if amounts else []
    )


def _amounts(parts: object, key: str) -> list[tuple[str, float]]:
    """`{"forward": 12}` or `[{"name": "gemm", "seconds": 0.1}]` as names with amounts, none of which is below zero."""
    found: list[tuple[str, object]] = []
    if isinstance(parts, dict):
        found = [(str(name), amount) for name, amount in parts.items()]
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict):
            found.append((next((str(value) for value in part.values() if isinstance(value, str)), "-"), part.get(key)))
    amounts = [(name, float(amount)) for name, amount in found if isinstance(amount, (int, float))]
    amounts = [(name, amount) for name, amount in amounts if math.isfinite(amount) and amount >= 0]
    return amounts if isinstance(parts, dict) else amounts[:MOST_BARS]


def _gaps(gaps: object) -> list[Block]:
    if not isinstance(gaps, list) or not gaps:
        return []
    rows = [
        (
            str(gap.get("step")),
            formats.quantity(float(gap["seconds"]), "seconds"),
            str(gap.get("phase") or "-"),
            str(gap.get("before") or "-"),
        )
        for gap in gaps
        if isinstance(gap, dict) and isinstance(gap.get("seconds"), (int, float))
    ]
    return [Table("Longest gaps", ("step", "idle", "phase", "then came"), rows, ("step", "idle"))]


def _size(value: object) -> str:
    return formats.size(value) if isinstance(value, (int, float)) else "unknown"


def _file_size(run: RunFacts, line: dict[str, Any]) -> str:
    path = _path(run, line)
    return formats.size(path.stat().st_size) if path else "missing"
