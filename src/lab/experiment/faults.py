"""What pydantic found wrong, said for people: the key, the fault, and the nearest valid key for an unknown one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BaseModel

from lab.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

SAID_ALREADY = ("missing", "value_error", "string_too_long", "string_too_short")
"""Faults whose message needs no value behind it."""
PLAIN = {
    "missing": "is missing",
    "model_type": "must be a table",
    "model_attributes_type": "must be a table",
    "dict_type": "must be a table",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "string_type": "must be text, in quotes",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
}


def explain(error: ValidationError, model: type[BaseModel], prefix: str = "") -> list[str]:
    """One line for each fault, starting with its key; `prefix` is where `model` stands, such as "attention"."""
    return [_line(fault, model, prefix) for fault in error.errors(include_url=False)]


def unknown_key(key: str, valid: Sequence[str], everywhere: Sequence[str] = ()) -> str:
    """Say that `key` is unknown, with the one meant: the same word in another table, a near one, one abbreviated."""
    last = key.rpartition(".")[2].replace("-", "_")
    same = [other for other in everywhere if other.rpartition(".")[2] == last]
    near = get_close_matches(last, valid, n=1, cutoff=0.6)
    short = [other for other in everywhere if last == "".join(word[0] for word in other.rpartition(".")[2].split("_"))]
    meant = [*(name for name in valid if name == last), *same, *near, *short][:1]
    return f"{key}: unknown key. " + (f"Did you mean '{meant[0]}'?" if meant else did_you_mean(last, valid))


def keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """Every key of the model and of the tables in it, dotted."""
    for name, field in model.model_fields.items():
        yield prefix + name
        inner = model_in(field.annotation)
        if inner is not None:
            yield from keys(inner, f"{prefix}{name}.")


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The table that a key of this type holds, looking through `| None` and `Annotated`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := model_in(inner)) is not None), None)


def model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    """The table at this place below `model`; a list's positions are passed over."""
    at: type[BaseModel] | None = model
    for name in location:
        if isinstance(name, str):
            at = model_in(at.model_fields[name].annotation) if at is not None and name in at.model_fields else None
    return at


def _line(fault: ErrorDetails, model: type[BaseModel], prefix: str) -> str:
    location = fault["loc"]
    key = ".".join(filter(None, [prefix, *map(str, location)]))
    if fault["type"] == "extra_forbidden":
        table = model_at(model, location[:-1])
        return unknown_key(key, list(table.model_fields) if table else [], list(keys(model)))
    message = PLAIN.get(fault["type"]) or _length(fault) or fault["msg"].removeprefix("Value error, ")
    message = message.replace("Input should", "must", 1)
    given = fault["input"]
    if fault["type"] not in SAID_ALREADY and isinstance(given, (str, int, float)):
        message += f", not {_short(given)}"
    return f"{key}: {message}" if key else message


def _length(fault: ErrorDetails) -> str:
    """A text that is too long or empty, without the text itself."""
    bounds, given = fault.get("ctx", {}), fault["input"]
    if fault["type"] == "string_too_long" and isinstance(given, str):
        return f"must have at most {bounds['max_length']:_} characters, not {len(given):_}"
    return "must not be empty" if fault["type"] == "string_too_short" and bounds.get("min_length") == 1 else ""


def _short(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
