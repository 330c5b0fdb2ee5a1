"""Source: documents with a pinned identity, in one order, from any cursor on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True)
class Document:
    """One source text, and the cursor that continues after it."""

    text: str
    cursor: Mapping[str, int | str]
    rejected: str | None = None
    """Why this record holds no text, and where it stands: such a record is counted and named, never trained on."""


class Source(Protocol):
    """Reading twice gives the same documents; a source that cannot promise that has no identity."""

    def identity(self) -> Mapping[str, object]:
        """Everything that decides the texts: name, revision, versions, file hashes. Part of the cache's key."""
        ...

    def documents(self, cursor: Mapping[str, int | str] | None = None) -> Iterator[Document]:
        """Yield the documents after `cursor`, or all; closing the iterator early leaves nothing running."""
        ...
