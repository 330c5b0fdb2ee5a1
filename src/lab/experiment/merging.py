"""How one table of settings is laid over another: `extends`, and `--set` on the command line.

1. Tables are merged key by key, at any depth; what only the base sets stays.
2. Everything else, lists included, replaces the base's value as a whole.
3. A part (loop, attention, loss, data.source, data.tokenizer) that is named anew takes none of the old one's options;
   options without a name go to the part that the base names.
4. Of two keys that exclude each other (batch.packs and batch.tokens, environment.volume_gb and
   environment.network_volume) the one set last drops the other.
5. `false` for an observer or a tracker switches off what the base has; an observer that it has not is refused.
"""

from __future__ import annotations

import tomllib
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from lab.errors import UsageError
from lab.experiment.faults import model_at
from lab.experiment.whole import Experiment

if TYPE_CHECKING:
    from collections.abc import Sequence

Table = dict[str, Any]
PART_KEYS = ("loop", "attention", "loss", "data.source", "data.tokenizer")
EXCLUSIVE = {
    "batch.packs": "tokens",
    "batch.tokens": "packs",
    "environment.volume_gb": "network_volume",
    "environment.network_volume": "volume_gb",
}


def merged(base: Table, own: Table, where: str = "") -> Table:
    """Lay `own` over `base` by the rules above; neither is changed."""
    result = dict(base)
    for key, value in own.items():
        inner = f"{where}.{key}" if where else key
        rival = EXCLUSIVE.get(inner)
        if rival is not None and rival not in own:
            result.pop(rival, None)
        old = result.get(key)
        if inner in PART_KEYS and isinstance(old, str):
            old = {"name": old}
        replaced = inner in PART_KEYS and isinstance(value, dict) and "name" in value
        if isinstance(value, dict) and isinstance(old, dict) and not replaced:
            result[key] = merged(old, value, inner)
        else:
            result[key] = value
    return result


def override(text: str) -> Table:
    """The table that one `--set a.b=value` stands for; what is not a TOML value is text, so names need no quotes."""
    left, equals, right = text.partition("=")
    path = _path(left)
    if not equals or not path:
        raise UsageError(f"--set {text!r} is not key=value.", "Example: --set optimizer.learning_rate=1e-4")
    table: Table = {path[-1]: _value(right.strip(), path)}
    for key in reversed(path[:-1]):
        table = {key: table}
    return table


def _path(dotted: str) -> list[str]:
    path: list[str] = []
    try:
        table: object = tomllib.loads(f"{dotted.strip()} = 0") if dotted.isprintable() else 0
    except (ValueError, RecursionError):
        return path
    while isinstance(table, dict) and len(table) == 1:
        [(key, table)] = table.items()
        path.append(key)
    return path if table == 0 else []


def _value(text: str, path: Sequence[str]) -> object:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    if list(parsed) != ["value"]:
        return text
    value = parsed["value"]
    return text if not isinstance(value, str) and _is_text(path) else value


def _is_text(path: Sequence[str]) -> bool:
    """Whether this key holds text: a revision such as 607e30 is not the number that TOML reads in it."""
    table = model_at(Experiment, path[:-1])
    field = table.model_fields.get(path[-1]) if table is not None else None
    return field is not None and _text_only(field.annotation)


def _text_only(annotation: object) -> bool:
    """Whether nothing but text, or nothing at all, is of this type, whatever bounds the text has."""
    kinds = [inner for inner in get_args(annotation) if inner is not NoneType]
    if get_origin(annotation) is Annotated:
        return _text_only(kinds[0])
    choice = isinstance(annotation, UnionType) or get_origin(annotation) is Union
    return annotation is str or (choice and all(map(_text_only, kinds)))
