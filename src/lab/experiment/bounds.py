"""What no experiment's file holds, whatever the key: what every run writes down has a size that people write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FILE_BYTES = 1_000_000
MOST_CHARACTERS = 100_000
"""Of one text; a longer argument no system hands to a program."""
MOST_KEY_CHARACTERS = 200
DEEPEST = 20
SHOWN_CHARACTERS = 60


def read_bounded(path: Path) -> bytes:
    """The file's content. Raises `UsageError` for one that is larger than any experiment, `OSError` as reading does."""
    with path.open("rb") as file:
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise UsageError(f"{path}: is larger than {FILE_BYTES:_} bytes: that is no experiment.")
    return content


def not_text(text: object) -> str:
    """What keeps a text from being written down wherever lab writes it; empty for every other value.

    No UTF-8 spells half a surrogate pair, which stands for a byte that was none; no program takes a NUL in an argument.
    """
    if not isinstance(text, str):
        return ""
    found = next((c for c in text if c == "\0" or "\ud800" <= c <= "\udfff"), None) if not text.isprintable() else None
    return f"is not text in UTF-8: character {text.index(found) + 1} is U+{ord(found):04X}" if found else ""


def require_bounded(table: Mapping[str, object], where: str) -> None:
    """Raise `UsageError` naming place and key for a text, a number or a nesting beyond what any experiment needs."""
    waiting: list[tuple[str, object, int]] = [("", table, 0)]
    while waiting:  # not recursive: nesting is one of the things that may be too deep
        key, value, depth = waiting.pop()
        if fault := _fault(key, value, depth):
            short = key if len(key) <= SHOWN_CHARACTERS else f"{key[:SHOWN_CHARACTERS]}..."
            raise UsageError(f"{where}: {short}: {fault}")
        waiting += [(f"{key}.{name}" if key else str(name), inner, depth + 1) for name, inner in _inside(value)]


def _inside(value: object) -> Iterator[tuple[object, object]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from enumerate(value)


def _fault(key: str, value: object, depth: int) -> str:
    if depth > DEEPEST:
        return f"is nested too deeply: at most {DEEPEST} tables in one another"
    if isinstance(value, dict) and (longest := max(map(len, value), default=0)) > MOST_KEY_CHARACTERS:
        return f"holds a key of {longest:_} characters; at most {MOST_KEY_CHARACTERS}"
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        return f"must have at most {MOST_CHARACTERS:_} characters, not {len(value):_}"
    if fault := not_text(value) or next(filter(None, map(not_text, value if isinstance(value, dict) else ())), ""):
        return fault
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return "must be a whole number of at most 64 bits"
    return ""
