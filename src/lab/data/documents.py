"""What a document is: its id, its split, and whether its text is used.

A text is never normalised; only what UTF-8 cannot hold (a lone surrogate) becomes U+FFFD, before the id is taken.
Only identical texts are duplicates, and the first in source order is the one that stays.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Literal, get_args

SplitName = Literal["train", "validation"]
SPLITS: tuple[SplitName, ...] = get_args(SplitName)


@dataclass
class Counters:
    """What became of each record read: `read` is the sum of all others but `repaired`."""

    read: int = 0
    kept: int = 0
    empty: int = 0
    """Texts of no character at all; white space is text."""
    duplicate: int = 0
    rejected: int = 0
    """Records without a text, and texts that cannot be encoded."""
    surplus: int = 0
    """Texts of a split whose budget was already met."""
    repaired: int = 0
    """Texts, whatever became of them, in which a lone surrogate became U+FFFD."""


def well_formed(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD; surrogate pairs become the character they spell."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def document_id(text: str) -> str:
    """SHA-256 (hex) of the text's UTF-8."""
    return hashlib.sha256(text.encode()).hexdigest()


def split_of(document: str, split_seed: int, validation_fraction: float) -> SplitName:
    """The split of a document id: the same on any machine, and the same for each chunk, since chunks come later."""
    digest = hashlib.sha256(f"{split_seed}:{document}".encode()).digest()
    # Scaling a float by a power of two is exact, and Python compares int with float exactly.
    return "validation" if int.from_bytes(digest[:8], "big") < validation_fraction * 2**64 else "train"


@dataclass
class Deduplication:
    """Remembers the ids seen, so that identical texts are used once."""

    _seen: set[bytes] = field(default_factory=set)

    def is_new(self, document: str) -> bool:
        """Whether this id comes for the first time."""
        key = bytes.fromhex(document)
        if key in self._seen:
            return False
        self._seen.add(key)
        return True
