"""Which parts of a forwarded value are covered in what is sent home.

The rule is that of `lab.runs.secrets.parts`, held here because the agent runs before lab is on the machine.
"""

from __future__ import annotations

import os
import re

SHORTEST_SECRET = 8
COMMON = re.compile(r"[-+\d.,:_]{1,15}|[\W_]+")
"""Numbers, dates and rules, which stand in any text."""
LINE_END = re.compile(r"\n|\\n")
GAP = re.compile(r"[\s\"',]+")


def secret_parts(value: str) -> list[str]:
    """The whole value, and each line of one that has several; nothing that is short, a number or a path here."""
    found = [value]
    lines = LINE_END.split(value)
    for line in lines if len(lines) > 1 else ():
        words = [word for word in GAP.split(line) if word]
        found += words if len(words) == 1 else filter(_looks_like_key, words)
    return [part for part in dict.fromkeys(found) if not _is_common(part)]


def _looks_like_key(word: str) -> bool:
    kinds = any(map(str.isdigit, word)), any(map(str.isalpha, word))
    return len(word) >= 16 and all(kinds) and "://" not in word


def _is_common(text: str) -> bool:
    if len(text) < SHORTEST_SECRET or COMMON.fullmatch(text):
        return True
    return "/" in text and os.path.exists(os.path.expanduser(text))
