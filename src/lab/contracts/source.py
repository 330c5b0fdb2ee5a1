"""Source: documents with a pinned identity, in one order, from any cursor on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.experiment.sections import Data


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


@runtime_checkable
class Published(Protocol):
    """A source for which somebody published counts, so that a live check can tell whether the same texts arrive."""

    def published(self, data: Data) -> Mapping[str, Mapping[str, int]] | None:
        """Documents, tokens and pairs of each split that `data` is known to give, or None for another choice."""
        ...
