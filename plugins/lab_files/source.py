"""A user's files as a source: the order of `paths`, folders and patterns by name, and records in file order."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING

from lab.contracts import Document
from lab.data.cache import file_sha256
from lab.data.parquet import rows
from lab.errors import LabError, UsageError
from lab_files.jsonl import BYTE_ORDER_MARK, lines
from lab_files.options import SUFFIXES, FilesOptions, Format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Cursor = Mapping[str, int | str]


class Files:
    """Documents of the project's own files; a text file is one document.

    Files are known by name and content: moving the project or touching a file changes nothing. One that is written to
    between being hashed and being read is an error, since its documents would not be those of the identity.
    """

    def __init__(self, options: FilesOptions) -> None:
        self._options = options
        self._hashed: dict[Path, tuple[tuple[int, int], str]] = {}

    def identity(self) -> Mapping[str, object]:
        """Format, key and SHA-256 of each file, in reading order."""
        files = []
        for path, kind in self._files():
            self._hashed[path] = _state(path), _sha256(path)
            files.append({"file": path.name, "format": kind, "sha256": self._hashed[path][1]})
        return {"name": "files", "text": self._options.text, "files": files}

    def documents(self, cursor: Cursor | None = None) -> Iterator[Document]:
        """Yield the documents after `cursor`: file number, and the place within the file."""
        first = int(cursor["file"]) if cursor else 0
        for number, (path, kind) in enumerate(self._files()):
            if number >= first:
                place = cursor if cursor and number == first else {}
                for document in self._documents_of(path, kind, place):
                    yield Document(document.text, {"file": number, **document.cursor}, document.rejected)
                self._check_unchanged(path)

    def _documents_of(self, path: Path, kind: Format, place: Cursor) -> Iterator[Document]:
        if kind == "parquet":
            for row in rows(path, path.name, self._options.text, int(place.get("group", 0)), int(place.get("row", 0))):
                yield Document(row.text, {"group": row.group, "row": row.row}, row.rejected)
        elif kind == "jsonl":
            for line in lines(path, self._options.text, int(place.get("line", 0)), int(place.get("byte", 0))):
                yield Document(line.text, {"line": line.number, "byte": line.end}, line.rejected)
        elif "read" not in place:
            yield _whole(path)

    def _files(self) -> list[tuple[Path, Format]]:
        found: dict[Path, Format] = {}
        for pattern in self._options.paths:
            for path in _expanded(pattern):
                found.setdefault(path, self._format(path))
        return list(found.items())

    def _format(self, path: Path) -> Format:
        if self._options.format != "auto":
            return self._options.format
        if path.suffix.lower() not in SUFFIXES:
            raise UsageError(
                f"data.source.paths: {path}: '{path.suffix}' is not a known kind of file ({', '.join(SUFFIXES)}).",
                "Say data.source.format, or unpack the file.",
            )
        return SUFFIXES[path.suffix.lower()]

    def _check_unchanged(self, path: Path) -> None:
        state, content = self._hashed.get(path, (_state(path), ""))
        if state != _state(path) and content != _sha256(path):
            raise LabError(f"{path}: changed while it was read.", "Let it come to rest, then prepare the data again.")


def _expanded(pattern: str) -> list[Path]:
    """The files that one entry of `paths` means. Raises `UsageError` when there is none."""
    full = os.path.join(_project(), os.path.expanduser(pattern))
    if os.path.isdir(full):
        found = [path for path in sorted(Path(full).rglob("*")) if _is_text(path, Path(full))]
    elif os.path.isfile(full):
        found = [Path(full)]
    else:
        found = [Path(path) for path in sorted(glob.glob(full, recursive=True)) if os.path.isfile(path)]
    if not found:
        what = "no text in the folder" if os.path.isdir(full) else "no file at"
        raise UsageError(f"data.source.paths: there is {what} {full}.", "Paths are relative to the project.")
    return found


def _is_text(path: Path, folder: Path) -> bool:
    """Hidden names are left out, as a pattern leaves them out: `._a.txt` and `.ipynb_checkpoints` are nobody's text."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def _project() -> Path:
    from lab.settings import read_settings

    return read_settings().project


def _whole(path: Path) -> Document:
    content = path.read_bytes().removeprefix(BYTE_ORDER_MARK)
    try:
        return Document(content.decode(), {"read": 1})
    except UnicodeDecodeError as error:
        return Document("", {"read": 1}, f"{path.name}: is not UTF-8: {error.reason} at byte {error.start}")


def _sha256(path: Path) -> str:
    try:
        return file_sha256(path)
    except OSError as error:
        raise LabError(f"{path}: cannot be read: {error.strerror}") from error


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
