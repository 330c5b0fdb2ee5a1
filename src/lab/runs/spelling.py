"""How records spell the numbers that JSON lacks.

NaN and the infinities are written as the strings "NaN", "Infinity" and "-Infinity", and a text that happens to be one
of these words gets a backslash in front. Both come back as they were.
"""

from __future__ import annotations

import math
import re

_WORDS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ESCAPED = re.compile(r"\\*(?:NaN|-?Infinity)")
_SIGNS = (b"\\", b'NaN"', b'Infinity"')
"""Without one of these in it, no value is one of the words, however JSON writes it."""
DEEPEST = 100
"""More levels than any record of ours has, and few enough to walk."""


def spells_none(raw: bytes) -> bool:
    """Whether each value of this JSON surely means itself, so that `meant` would change nothing."""
    return not any(sign in raw for sign in _SIGNS)


def spelled(value: object) -> object:
    """The value as JSON can hold it, at every depth."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, str):
        return f"\\{value}" if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {str(key): spelled(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [spelled(inner) for inner in value]
    return value


def meant(value: object, depth: int = 0) -> object:
    """The value that was spelled. Raises `ValueError` for one so deep that whoever walks it would not come back."""
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, str):
        return _WORDS[value] if value in _WORDS else value.removeprefix("\\") if _ESCAPED.fullmatch(value) else value
    if isinstance(value, dict):
        return {key: meant(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list):
        return [meant(inner, depth + 1) for inner in value]
    return value
