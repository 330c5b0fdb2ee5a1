"""The lines of metrics.jsonl as columns: one list a value, one place a step or an evaluation."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lab.runs.series_names import SILENT, STEP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Numbers = list[float]
"""A column of numbers; what a line does not have reads NaN."""

KNOWN = SILENT | STEP.keys()


@dataclass(frozen=True)
class Steps:
    """The steps that a run has written, in order; a step written twice counts once, as last written."""

    lines: tuple[Mapping[str, Any], ...]
    _columns: dict[str, Numbers] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Steps:
        """Order the lines by step."""
        by_step = {line["step"]: line for line in lines if isinstance(line.get("step"), int)}
        return cls(tuple(by_step[step] for step in sorted(by_step)))

    def __len__(self) -> int:
        return len(self.lines)

    def column(self, name: str) -> Numbers:
        """One value of every step as a number."""
        if name not in self._columns:
            values = (line.get(name) for line in self.lines)
            self._columns[name] = [
                value if type(value) is float else math.nan if value is None else _number(value) for value in values
            ]
        return self._columns[name]

    def samples(self, name: str) -> Numbers:
        """The values of those steps alone that have one: what is sampled by time is in few lines."""
        values = (_number(line[name]) for line in self.lines if name in line)
        return [value for value in values if math.isfinite(value)]

    def measured_samples(self, name: str) -> Numbers:
        """The same of the measured steps alone."""
        return Steps(tuple(self.lines[place] for place in self.measured)).samples(name)

    @cached_property
    def numbers(self) -> list[int]:
        """The step numbers."""
        return [line["step"] for line in self.lines]

    @cached_property
    def fed(self) -> list[str | None]:
        """The rolling fingerprint of the tokens fed, up to and including each step."""
        return [line.get("fed") for line in self.lines]

    @cached_property
    def tokens(self) -> Numbers:
        """Targets learnt from up to and including each step: the axis on which runs are aligned."""
        total = self.column("targets_total")
        if not any(math.isnan(value) for value in total):
            return total
        running, sums = 0.0, []
        for value in self.column("targets"):
            running += 0.0 if math.isnan(value) else value
            sums.append(running)
        return sums

    @cached_property
    def normal(self) -> list[int]:
        """Places of the normal region: the steps that are neither warm-up nor observed."""
        return [place for place, line in enumerate(self.lines) if not line.get("warmup") and not line.get("observed")]

    @cached_property
    def measured(self) -> list[int]:
        """Places of the normal region whose time is known: what a speed is computed from."""
        seconds = self.column("seconds")
        return [place for place in self.normal if not math.isnan(seconds[place])]

    @cached_property
    def missing(self) -> int:
        """Steps that should stand before the last one and do not."""
        return self.numbers[-1] - len(self.numbers) if self.numbers else 0

    @cached_property
    def own_values(self) -> list[str]:
        """Names of the numbers that this run's loop added to its lines, in their first order."""
        names = dict.fromkeys(key for line in self.lines[:50] for key in line if key not in KNOWN)
        return [name for name in names if any(not math.isnan(value) for value in self.column(name))]


@dataclass(frozen=True)
class Evaluations:
    """The evaluations of a run, in order of their step."""

    lines: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, lines: Iterable[Mapping[str, Any]]) -> Evaluations:
        """Order the lines by step; the last one of a step counts."""
        by_step = {line["step"]: line for line in lines if isinstance(line.get("step"), int)}
        return cls(tuple(by_step[step] for step in sorted(by_step)))

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def numbers(self) -> list[int]:
        """The step after which each was made; 0 is before training."""
        return [line["step"] for line in self.lines]

    @cached_property
    def loss(self) -> Numbers:
        """Mean cross-entropy of each, in nats a target."""
        return [_number(line.get("loss")) for line in self.lines]

    @cached_property
    def bits_per_byte(self) -> Numbers:
        """The same in bits a UTF-8 byte of the text, which no tokenizer changes; NaN where bytes are not recorded."""
        return [_bits_per_byte(line) for line in self.lines]

    @cached_property
    def inputs(self) -> str | None:
        """The fingerprint of what was evaluated, when all evaluations agree on one."""
        found = {line.get("inputs") for line in self.lines}
        return found.pop() if len(found) == 1 else None

    def tokens(self, steps: Steps) -> Numbers:
        """Targets learnt from when each was made."""
        return [_total(line, steps) for line in self.lines]


def _total(line: Mapping[str, Any], steps: Steps) -> float:
    if line["step"] == 0:
        return 0.0
    place = bisect_left(steps.numbers, line["step"])
    if place < len(steps) and steps.numbers[place] == line["step"]:
        return steps.tokens[place]
    return math.nan


def _bits_per_byte(line: Mapping[str, Any]) -> float:
    size, targets, loss = _number(line.get("bytes")), _number(line.get("targets")), _number(line.get("loss"))
    return loss * targets / (math.log(2) * size) if size and not math.isnan(size) else math.nan


def _number(value: object) -> float:
    if isinstance(value, (int, float)):
        return float(value)
    return math.nan
