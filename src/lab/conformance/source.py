"""Whether a source gives the same documents every time, from any cursor on, and leaves nothing running."""

from __future__ import annotations

import itertools
import json
import threading
from typing import TYPE_CHECKING

import psutil

from lab.conformance import require

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.contracts import Document, Source

PATIENCE_SECONDS = 5.0


def check_source(source: Source, *, limit: int = 200) -> None:
    """Two readings agree, reading on from a cursor agrees with reading through, and closing early is clean.

    At most `limit` documents are read at a time; the source must have three at least.
    """
    identity = _identity(source)
    documents = _read(source, None, limit)
    require(len(documents) >= 3, f"the source gives {len(documents)} documents; a check needs three or more")
    for index, document in enumerate(documents):
        _check_document(index, document)
    again = _read(source, None, limit)
    require(documents == again, f"reading twice differs from document {_first_difference(documents, again)} on")
    _check_cursors(source, documents, limit)
    _check_closing(source)
    require(_identity(source) == identity, "reading changes the identity")


def _identity(source: Source) -> str:
    identity = source.identity()
    require(identity, "the identity is empty: it must hold all that decides the texts")
    try:
        return json.dumps(identity, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        require(False, f"the identity is not plain JSON: {error}")
        raise


def _read(source: Source, cursor: Mapping[str, int | str] | None, limit: int) -> list[Document]:
    documents = source.documents(cursor)
    try:
        return list(itertools.islice(documents, limit))
    finally:
        _close(documents)


def _close(documents: Iterator[Document]) -> None:
    close = getattr(documents, "close", None)
    require(callable(close), "documents() gives an iterator that cannot be closed; write it as a generator")
    assert close is not None
    close()


def _check_document(index: int, document: Document) -> None:
    require(isinstance(document.text, str), f"document {index} holds {type(document.text).__name__}, not text")
    try:
        document.text.encode("utf-8")
    except UnicodeEncodeError as error:
        require(False, f"document {index} is not valid Unicode: {error}")
    whole = all(isinstance(value, (int, str)) for value in document.cursor.values())
    require(whole and document.cursor, f"document {index}: a cursor holds whole numbers and text: {document.cursor!r}")


def _check_cursors(source: Source, documents: list[Document], limit: int) -> None:
    for index in sorted({0, 1, len(documents) // 2, len(documents) - 2}):
        cursor = json.loads(json.dumps(dict(documents[index].cursor)))
        rest = _read(source, cursor, limit)[: len(documents) - index - 1]
        wanted = documents[index + 1 :]
        first = _first_difference(wanted, rest)
        require(
            rest == wanted, f"reading on after document {index} differs from reading through at {index + 1 + first}"
        )


def _first_difference(one: list[Document], other: list[Document]) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (a, b) in pairs if a != b), min(len(one), len(other)))


def _check_closing(source: Source) -> None:
    """What the first closing leaves is the library's; what every further one adds is a leak."""
    process = psutil.Process()
    _read(source, None, 1)
    threads, files, children = set(threading.enumerate()), process.num_fds(), set(process.children())
    for _ in range(3):
        _read(source, None, 1)
    for thread in set(threading.enumerate()) - threads:
        thread.join(PATIENCE_SECONDS)
        require(not thread.is_alive(), f"closing early leaves the thread {thread.name} running")
    left = process.num_fds() - files
    require(left <= 0, f"three readings that were closed early leave {left} files open")
    require(set(process.children()) <= children, "closing early leaves a process running")
