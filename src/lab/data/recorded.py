"""Whether a later attempt of a run would be fed what the run recorded: if not, it is refused naming what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Leaf = tuple[str, object]

SHOWN = 20


def require_same(recorded: Mapping[str, object], identity: str, key: Mapping[str, object]) -> None:
    """Raise `LabError` unless `recorded`, a run's data manifest, has this identity; `key` is what decides it now."""
    if recorded.get("identity") == identity:
        return
    differences = list(_differences(recorded, key)) or ["the token cache's format"]
    more = [f"and {len(differences) - SHOWN} more"] if len(differences) > SHOWN else []
    listed = "\n".join(f"  {line}" for line in [*differences[:SHOWN], *more])
    raise LabError(
        f"The data is not what the run was fed before:\n{listed}",
        "Bring it back as it was, or start a new run with what is here: lab run",
    )


def _differences(recorded: Mapping[str, object], key: Mapping[str, object]) -> Iterator[str]:
    """Yield what was and what is now, for each value that decides the tokens."""
    old, new = {name: recorded.get(name) for name in key}, key
    said, decisive = old.get("tokenizer"), key.get("tokenizer")
    if isinstance(said, dict) and isinstance(decisive, dict):  # a manifest also has its name, which decides nothing
        old["tokenizer"] = {name: said.get(name) for name in decisive}
    before, now = dict(_leaves(old)), dict(_leaves(new))
    for name in dict.fromkeys([*now, *before]):
        if before.get(name) != now.get(name):
            yield f"{name}: {before.get(name)} -> {now.get(name)}"


def _leaves(value: object, name: str = "") -> Iterator[Leaf]:
    """Yield every plain value by its dotted name; an item of a list that says its file goes by that."""
    if isinstance(value, dict):
        inner = [(str(key), below) for key, below in value.items()]
    elif isinstance(value, (list, tuple)):
        inner = [(_called(number, item), item) for number, item in enumerate(value)]
    else:
        yield name, value
        return
    for key, below in inner:
        yield from _leaves(below, f"{name}.{key}" if name else key)


def _called(number: int, item: object) -> str:
    return str(item.get("file", number)) if isinstance(item, dict) else str(number)
