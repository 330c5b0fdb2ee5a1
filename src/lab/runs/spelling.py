"""How records spell the numbers that JSON lacks.

NaN and the infinities are written as the strings "NaN", "Infinity" and "-Infinity", and a text that happens to be one
of these words gets a backslash in front. Both come back as they were.
"""

from __future__ import annotations

import json
import math
import re

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ESCAPED = re.compile(r"\\*(?:NaN|-?Infinity)")
_SIGNS = (b"\\", b'NaN"', b'Infinity"')
"""Without one of these in it, no value is one of the words, however JSON writes it."""
DEEPEST = 100
"""More levels than any record of ours has, and few enough to walk."""
_MOST_DIGITS = 300
"""A number of more is none that a float can be, and whoever counts with it would stumble; a text may have them."""
_TOO_LARGE = 10**_MOST_DIGITS
_TOO_LONG = f"it holds a number of more than {_MOST_DIGITS} digits"
_TOO_DEEP = f"it is nested more than {DEEPEST} deep"


def parsed(raw: bytes) -> object:
    """What JSON says. Raises `ValueError` for what is none, and for a number of more digits than a float can have."""
    digits = len(raw) - len(raw.translate(None, b"0123456789"))
    return json.loads(raw, parse_int=_integer if digits > _MOST_DIGITS else None)


def spells_none(raw: bytes) -> bool:
    """Whether each value of this JSON surely means itself, so that `meant` would change nothing and refuse nothing."""
    return not any(sign in raw for sign in _SIGNS) and raw.count(b"[") + raw.count(b"{") <= DEEPEST


def spelled(value: object, depth: int = 0) -> object:
    """The value as JSON can hold it, at every depth. Raises `ValueError` for one that would not be read again."""
    if depth > DEEPEST:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, int) and not -_TOO_LARGE < value < _TOO_LARGE:
        raise ValueError(_TOO_LONG)
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str):
        return f"\\{value}" if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {str(key): spelled(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [spelled(inner, depth + 1) for inner in value]
    return value


def meant(value: object, depth: int = 0) -> object:
    """The value that was spelled. Raises `ValueError` for one so deep that whoever walks it would not come back."""
    if depth > DEEPEST:
        raise ValueError(_TOO_DEEP)
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else value.removeprefix("\\") if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: meant(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [meant(inner, depth + 1) for inner in value]
    return value


def _integer(digits: str) -> int:
    if len(digits.lstrip("-")) > _MOST_DIGITS:
        raise ValueError(_TOO_LONG)
    return int(digits)
