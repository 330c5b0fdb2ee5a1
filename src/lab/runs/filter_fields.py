"""The fields of a run by which a list is filtered, sorted and laid out, and what a comparison with each means.

A value that is missing equals nothing and is neither less nor more than anything; so does NaN. `= none` and `= nan`
find them.
"""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from lab.errors import UsageError, did_you_mean
from lab.runs.status import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lab.runs.row import Row

ORDERS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
}
_OPERATORS = {"text": ("=", "!=", "~"), "words": ("=", "!=", "~")}
_UNITS = {
    "number": {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01},
    "seconds": {"": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0},
}
_NUMBER = re.compile(r"([-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?|[-+]?inf|nan)(k|M|G|%|s|min|m|h|d)?")
_TIME = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d)?)?)?)?)?")
_FIRST_MOMENT = "0001-01-01T00:00:00"


@dataclass(frozen=True)
class Field:
    """One field: its name on the command line, where a row keeps it, and what kind of value it is."""

    name: str
    attribute: str
    kind: str
    """text, words (several, as tags are), number, seconds, or time."""
    choices: tuple[str, ...] = ()

    def of(self, row: Row) -> Any:
        """The row's value; None where it has none."""
        value = getattr(row, self.attribute)
        return None if value in ("", ()) else value


FIELDS = {
    field.name: field
    for field in (
        Field("run", "id", "text"),
        Field("status", "status", "text", ("created", "running", *FINAL)),
        Field("experiment", "experiment", "text"),
        Field("group", "group", "text"),
        Field("backend", "backend", "text"),
        Field("gpu", "gpu", "text"),
        Field("created", "created", "time"),
        Field("steps", "steps", "number"),
        Field("loss", "loss", "number"),
        Field("evaluation", "evaluation_loss", "number"),
        Field("tokens_per_second", "tokens_per_second", "number"),
        Field("mfu", "mfu", "number"),
        Field("took", "elapsed_seconds", "seconds"),
        Field("attempt", "attempt", "number"),
        Field("machine", "resource", "text"),
        Field("reason", "reason", "text"),
        Field("change", "change", "text"),
        Field("tag", "tags", "words"),
        Field("note", "note", "text"),
    )
}


def named(name: str) -> Field:
    """The field of that name, or of that name in the JSON list; a `UsageError` with the nearest one else."""
    for field in FIELDS.values():
        if name in (field.name, field.attribute):
            return field
    raise UsageError(f"A run has no field '{name}'.", did_you_mean(name, FIELDS))


def condition(field: Field, sign: str, word: str, *, quoted: bool = False) -> Callable[[Row], bool]:
    """Whether a row's field stands so to the word; a `UsageError` where that says nothing."""
    allowed = _OPERATORS.get(field.kind, (*ORDERS, "!="))
    if sign not in allowed:
        raise UsageError(f"{field.name} is {_kind(field)}: '{sign}' says nothing about it.", f"Use {' '.join(allowed)}")
    if word == "none" and not quoted and sign in ("=", "!="):
        return lambda row: (field.of(row) is None) is (sign == "=")
    if sign == "!=":
        equal = condition(field, "=", word, quoted=True)
        return lambda row: not equal(row)
    matches = _matches(field, sign, word)
    return lambda row: (value := field.of(row)) is not None and matches(value)


def ordered(rows: Sequence[Row], field: Field, *, descending: bool) -> list[Row]:
    """The rows by that field; those without a value come last either way, and equal ones stay as they were."""
    known = [row for row in rows if not _is_nothing(field.of(row))]
    rest = [row for row in rows if _is_nothing(field.of(row))]
    return sorted(known, key=field.of, reverse=descending) + rest


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _matches(field: Field, sign: str, word: str) -> Callable[[Any], bool]:
    if field.kind == "time":
        return _moment(field, sign, word)
    if field.kind in _UNITS:
        wanted = _number(field, word)
        if math.isnan(wanted) and sign == "=":
            return math.isnan
        return lambda value: ORDERS[sign](value, wanted)
    if sign == "~":
        part = word.casefold()
        if field.kind == "words":
            return lambda value: any(part in one.casefold() for one in value)
        return lambda value: part in value.casefold()
    if field.choices and word not in field.choices:
        raise UsageError(f"No run's {field.name} is '{word}'.", did_you_mean(word, field.choices))
    return (lambda value: word in value) if field.kind == "words" else (lambda value: bool(value == word))


def _moment(field: Field, sign: str, word: str) -> Callable[[str], bool]:
    """Compares as exactly as the word is: `created<=2026-12-01` holds for all of that day."""
    wanted = word.replace(" ", "T")
    if not _is_time(wanted):
        raise UsageError(
            f"'{word}' is no time, and {field.name} is one.", "Such as 2026-12-01 or 2026-12-01T09:15, UTC."
        )
    return lambda value: ORDERS[sign](value[: len(wanted)], wanted)


def _is_time(word: str) -> bool:
    """Whether it is a moment's beginning, down to the year alone."""
    if not _TIME.fullmatch(word):
        return False
    try:
        datetime.fromisoformat(word + _FIRST_MOMENT[len(word) :])
    except ValueError:  # a thirteenth month
        return False
    return True


def _number(field: Field, word: str) -> float:
    found, units = _NUMBER.fullmatch(word), _UNITS[field.kind]
    if found is None or (found[2] or "") not in units:
        example = f"A number, with {', '.join(filter(None, units))} behind it if you like; or nan, inf, none."
        raise UsageError(f"'{word}' is no number, and {field.name} is {_kind(field)}.", example)
    return float(found[1]) * units[found[2] or ""]


def _kind(field: Field) -> str:
    return {"words": "a set of words", "seconds": "a time in seconds", "time": "a date"}.get(
        field.kind, f"a {field.kind}"
    )
