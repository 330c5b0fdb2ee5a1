"""Turns the lines of metrics.jsonl into W&B's rows: one for each step, its evaluation included."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lab.runs import regular
from lab.runs.series_names import EVALUATION, RATE, SILENT, STEP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVALUATED = EVALUATION | {"targets": "eval/tokens", "bytes": "eval/bytes"}
BY_TOKENS = {STEP["loss"]: "by_tokens/train_loss", EVALUATION["loss"]: "by_tokens/eval_loss"}
"""W&B gives a series one x axis; these losses are there once for each."""


@dataclass(frozen=True)
class Row:
    """One row: its values, and where in the file it ends."""

    values: dict[str, Any]
    end: int


def read(path: Path, offset: int, whole: bool) -> Iterator[Row]:
    """Yield the rows after `offset`. The last step waits for its evaluation, unless the file is `whole`."""
    steps = [list(group) for _, group in groupby(_lines(path, offset), key=lambda line: line[0].get("step"))]
    if not whole:
        del steps[-1:]
    for lines in steps:
        yield Row(_values([record for record, _ in lines]), lines[-1][1])


def prefix_sha256(path: Path, length: int) -> str | None:
    """What identifies the part that was mirrored; None when the file is shorter by now."""
    digest, left = hashlib.sha256(), length
    try:
        with regular.opened(path) as file:
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left -= len(piece)
    except FileNotFoundError:
        return None if length else digest.hexdigest()
    except OSError as error:
        raise regular.unreadable(path, error) from error
    return None if left else digest.hexdigest()


def _lines(path: Path, offset: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Whole lines with the offset at which each ends; a torn one is not there yet, or never was."""
    try:
        file = regular.opened(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise regular.unreadable(path, error) from error
    with file:
        file.seek(offset)
        while raw := file.readline(regular.LONGEST_LINE_BYTES):
            offset += len(raw)
            if not raw.endswith(b"\n"):
                return
            try:
                record = json.loads(raw)
            except ValueError:
                continue
            if isinstance(record, dict):
                yield record, offset


def _values(records: list[dict[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for record in records:
        values["train/step"] = record.get("step")
        values["train/seconds_since_1970"] = record.get("time")
        values.update(_evaluation(record) if record.get("kind") == "evaluation" else _step(record))
    values.update({twin: values[name] for name, twin in BY_TOKENS.items() if name in values})
    return {name: _number(value) for name, value in values.items() if _number(value) is not None}


def _step(record: dict[str, Any]) -> dict[str, Any]:
    values = {STEP.get(name, f"values/{name}"): value for name, value in record.items() if name not in SILENT}
    seconds = _number(record.get("seconds"))
    if seconds and not record.get("observed"):
        values[RATE] = record.get("targets", 0) / seconds
    return values


def _evaluation(record: dict[str, Any]) -> dict[str, Any]:
    return {wandb: record.get(ours) for ours, wandb in EVALUATED.items()}


def _number(value: Any) -> float | int | None:
    """What can be drawn; a record spells NaN and infinities as text, because JSON has no number for them."""
    if value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None
