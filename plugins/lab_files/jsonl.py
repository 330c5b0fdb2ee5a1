"""Texts out of JSON lines, line by line from any line on.

Only a line feed ends a line (U+2028 and U+0085 are text); a carriage return before it, and a byte order mark at the
start of the file, belong to nobody. A blank line is no record. A line that holds no text is rejected by its number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Line:
    """One record's text, or why it has none, and the place after it."""

    text: str
    rejected: str | None
    number: int
    end: int
    """The byte after it."""


def lines(path: Path, key: str, number: int = 0, end: int = 0) -> Iterator[Line]:
    """Yield the records after byte `end`, where line `number` ended."""
    with path.open("rb") as file:
        file.seek(end)
        for raw in file:
            number += 1
            content = (raw.removeprefix(BYTE_ORDER_MARK) if end == 0 else raw).strip()
            end += len(raw)
            if content:
                text, fault = _text(content, key)
                yield Line(text, fault and f"{path.name} line {number}: {fault}", number, end)


def _text(content: bytes, key: str) -> tuple[str, str | None]:
    try:
        record = json.loads(content.decode())
    except UnicodeDecodeError as error:
        return "", f"is not UTF-8: {error.reason} at byte {error.start}"
    except (ValueError, RecursionError) as error:
        return "", f"is not JSON: {error}"
    if not isinstance(record, dict):
        return "", f"is not a JSON object but a {type(record).__name__}"
    if key not in record:
        return "", f"has no '{key}'; it has {', '.join(map(repr, record)) or 'nothing'}"
    text = record[key]
    if not isinstance(text, str):
        return "", f"'{key}' is {'null' if text is None else type(text).__name__}, not text"
    return text, None
