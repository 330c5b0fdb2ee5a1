"""The kinds of value that an experiment's keys hold, and what each refuses."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, PlainValidator, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_HOURS = 24 * 365
LEAST_HOURS = 1 / 3600
MOST_DOLLARS = 1_000_000
LEAST_DOLLARS = 0.01
MOST_GB = 100_000
MOST_NAME = 500

_HOST_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_HOST_LABEL}(?:\.{_HOST_LABEL})*|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_{1,2}|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?{_PATH_PART}(?:/{_PATH_PART})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
)
"""What container registries take for a reference: host, path in small letters, tag, digest."""


def _no_switch(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError(f"must be a number, not {str(value).lower()}")
    return value


def _at_most(most: int, what: str) -> Callable[[float], float]:
    """What becomes a date, a price or a disk has a bound that nobody meets and that every clock can hold."""

    def check(value: float) -> float:
        if value > most:
            raise ValueError(f"must be at most {most:_} ({what}), not {value:g}")
        return value

    return check


def _at_least(least: float, what: str) -> Callable[[float], float]:
    """A limit that is over before anything can begin was meant otherwise."""

    def check(value: float) -> float:
        if value < least:
            raise ValueError(f"must be at least {least:.2g} ({what}), not {value:g}")
        return value

    return check


Number = Annotated[FiniteFloat, BeforeValidator(_no_switch)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Hours = Annotated[
    Positive, AfterValidator(_at_least(LEAST_HOURS, "a second")), AfterValidator(_at_most(MOST_HOURS, "a year"))
]
Dollars = Annotated[
    Positive,
    AfterValidator(_at_least(LEAST_DOLLARS, "a cent")),
    AfterValidator(_at_most(MOST_DOLLARS, "a million dollars")),
]
Share = Annotated[Number, Field(gt=0, lt=1)]
Decay = Annotated[Number, Field(ge=0, lt=1)]

Whole = Annotated[int, BeforeValidator(_no_switch)]
Count = Annotated[Whole, Field(gt=0, lt=2**63)]
Gigabytes = Annotated[Count, AfterValidator(_at_most(MOST_GB, "100 TB"))]
CountOrNone = Annotated[Whole, Field(ge=0, lt=2**63)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]

Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]

_SWITCH = TypeAdapter(bool)


def _options(value: object) -> dict[str, Any] | bool:
    """A table of options; `true` stands for none of them, `false` for "not this one"."""
    if isinstance(value, dict):
        return value
    try:
        return _SWITCH.validate_python(value) and {}
    except ValidationError:
        raise ValueError(f"must be a table of options, true or false, not {value!r}") from None


def switched_off(value: object) -> bool:
    """Whether this value in place of a part's options stands for "not this one"."""
    try:
        return _options(value) is False
    except ValueError:
        return False


Options = Annotated[dict[str, Any] | bool, PlainValidator(_options)]


def _requirement(text: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f'{text!r} is not a package such as "torch==2.14.1": {str(error).splitlines()[0]}') from None
    return text


Package = Annotated[str, Field(max_length=MOST_NAME), AfterValidator(_requirement)]


def _reference(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError(f'{text!r} is not an image such as "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-devel@sha256:..."')
    return text


Image = Annotated[Name, AfterValidator(_reference)]


def _inside(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{pattern!r} must be a pattern below the run directory")
    return pattern


Pattern = Annotated[str, Field(max_length=MOST_NAME), AfterValidator(_inside)]
