"""The lines of metrics.jsonl as MLflow's points: names that group well, true times, our own step."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lab.runs import regular
from lab.runs.series_names import EVALUATION, RATE, SAMPLED, SILENT, STEP
from lab_mlflow import names

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALWAYS = frozenset({STEP["loss"], RATE}) | SAMPLED
"""The series that keep every point however long a run is: the headlines, and what is rare anyway."""
NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
MOST_STEPS = 10_000
"""In a longer run the other series keep every n-th step: 100,000 points take MLflow seven seconds."""


class Point(NamedTuple):
    """One value of one series."""

    key: str
    value: float
    milliseconds: int
    step: int


@dataclass
class Reader:
    """Reads what a file has grown by, and remembers which names it had to write otherwise."""

    path: Path
    stride: int = 1
    offset: int = 0
    renamed: dict[str, str] = field(default_factory=dict)
    digest: Any = field(default_factory=hashlib.sha256)
    _keys: dict[str, str | None] = field(default_factory=lambda: {**STEP, **dict.fromkeys(SILENT)})

    def skip_to(self, offset: int, sha256: str) -> bool:
        """Go on at `offset`; False when what stands before it is not what was mirrored."""
        digest, left = hashlib.sha256(), offset
        if not offset:
            return True
        try:
            with regular.opened(self.path) as file:
                while left and (piece := file.read(min(left, 1 << 20))):
                    digest.update(piece)
                    left -= len(piece)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise regular.unreadable(self.path, error) from error
        if left or digest.hexdigest() != sha256:
            return False
        self.offset, self.digest = offset, digest
        return True

    def new(self) -> Iterator[tuple[list[Point], int]]:
        """Yield the points of each whole line after the offset, and where the line ends."""
        try:
            file = regular.opened(self.path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise regular.unreadable(self.path, error) from error
        with file:
            file.seek(self.offset)
            while raw := file.readline(regular.LONGEST_LINE_BYTES):
                if not raw.endswith(b"\n"):
                    return
                self.offset += len(raw)
                self.digest.update(raw)
                yield self._points(raw), self.offset

    def _points(self, raw: bytes) -> list[Point]:
        try:
            line = json.loads(raw)
            step, milliseconds = int(line["step"]), int(float(line.get("time") or 0) * 1000)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return []  # torn by a kill: the run's own records say how many
        values = _evaluation(line) if line.get("kind") == "evaluation" else self._step(line, step)
        return [Point(key, value, milliseconds, step) for key, value in values.items() if value is not None]

    def _step(self, line: dict[str, Any], step: int) -> dict[str, float | None]:
        values: dict[str, float | None] = {}
        all_series = step % self.stride == 0 or step == 1
        for ours, value in line.items():
            key = self._keys[ours] if ours in self._keys else self._own(ours)
            if key is not None and (all_series or key in ALWAYS):
                values[key] = value if type(value) is float else number(value)
        seconds, targets = values.get(STEP["seconds"], number(line.get("seconds"))), number(line.get("targets"))
        if seconds and targets is not None and not line.get("observed"):
            values[RATE] = targets / seconds
        return values

    def _own(self, name: str) -> str:
        key = f"values/{names.written(name)}"
        if key != f"values/{name}":
            self.renamed[key] = name
        self._keys[name] = key
        return key


def number(value: object) -> float | None:
    """What can be drawn; a record spells NaN and infinities as words."""
    if isinstance(value, str):
        return NOT_FINITE.get(value)
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _evaluation(line: dict[str, Any]) -> dict[str, float | None]:
    values = {key: number(line.get(ours)) for ours, key in EVALUATION.items()}
    loss, size, targets = values["eval/loss"], number(line.get("bytes")), number(line.get("targets"))
    if loss is not None and size and targets:
        values["eval/bits_per_byte"] = loss * targets / (math.log(2) * size)
    return values
