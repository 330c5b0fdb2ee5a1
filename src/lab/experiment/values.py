"""The kinds of value that an experiment's keys hold, and what each refuses."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, FiniteFloat, PlainValidator, TypeAdapter, ValidationError

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_HOURS = 24 * 365
MOST_DOLLARS = 1_000_000
MOST_GB = 100_000


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


Number = Annotated[FiniteFloat, BeforeValidator(_no_switch)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Hours = Annotated[Positive, AfterValidator(_at_most(MOST_HOURS, "a year"))]
Dollars = Annotated[Positive, AfterValidator(_at_most(MOST_DOLLARS, "a million dollars"))]
Share = Annotated[Number, Field(gt=0, lt=1)]
Decay = Annotated[Number, Field(ge=0, lt=1)]

Whole = Annotated[int, BeforeValidator(_no_switch)]
Count = Annotated[Whole, Field(gt=0, lt=2**63)]
Gigabytes = Annotated[Count, AfterValidator(_at_most(MOST_GB, "100 TB"))]
CountOrNone = Annotated[Whole, Field(ge=0, lt=2**63)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]

_SWITCH = TypeAdapter(bool)


def _options(value: object) -> dict[str, Any] | bool:
    """A table of options; `true` stands for none of them, `false` for "not this one"."""
    if isinstance(value, dict):
        return value
    try:
        return _SWITCH.validate_python(value) and {}
    except ValidationError:
        raise ValueError(f"must be a table of options, true or false, not {value!r}") from None


Options = Annotated[dict[str, Any] | bool, PlainValidator(_options)]


def _requirement(text: str) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    try:
        Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(f'{text!r} is not a package such as "torch==2.14.1": {str(error).splitlines()[0]}') from None
    return text


Package = Annotated[str, AfterValidator(_requirement)]


def _inside(pattern: str) -> str:
    path = PurePosixPath(pattern)
    if not pattern or path.is_absolute() or ".." in path.parts:
        raise ValueError(f"{pattern!r} must be a pattern below the run directory")
    return pattern


Pattern = Annotated[str, AfterValidator(_inside)]
