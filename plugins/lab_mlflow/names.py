"""Names that MLflow takes, made from any name and back again."""

from __future__ import annotations

import hashlib
import re

LONGEST = 250
_PLAIN = re.compile(r"[A-Za-z0-9_\-. ]")
_ESCAPE = re.compile(r":([0-9a-f]+):")


def written(name: str) -> str:
    """The name with what MLflow refuses, or reads as a path, written as `:hex:`; a long one ends in a hash."""
    text = "".join(character if _PLAIN.fullmatch(character) else f":{ord(character):x}:" for character in name)
    if not text.strip("."):
        text = "".join(f":{ord(character):x}:" for character in name)
    if len(text) <= LONGEST - 10:
        return text
    return f"{text[: LONGEST - 30]}:{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def spelt(text: str) -> str:
    """The text as UTF-8 can hold it: a byte of a path or branch that is no text is spelt out, as `\\udce9`."""
    return text.encode("utf-8", "backslashreplace").decode()


def read(text: str) -> str:
    """The name that `written` gave; one that was cut stays cut."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)
