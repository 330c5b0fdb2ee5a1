"""The `datasets` source: loaded whole once, mapped into memory, read by row from any row on.

It never streams: a stream of `datasets` that is left early hangs the process at its exit.
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import datasets

from lab.contracts import Document
from lab.data import hub
from lab.errors import LabError, UsageError, did_you_mean
from lab.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lab.experiment.sections import Tokenizer
    from lab_datasets.options import DatasetsOptions

ROWS_AT_ONCE = 256


class Datasets:
    """Rows of one split in their order; each is a document."""

    def __init__(self, options: DatasetsOptions) -> None:
        self._options = options

    def identity(self) -> Mapping[str, object]:
        """The commit, or the hashes of the folder's files; either decides every row."""
        options = self._options
        where: dict[str, object] = {"repository": options.repository, "revision": options.revision}
        if options.folder is not None:
            where = {"files": _hashes(self._folder)}
        return {
            "name": "datasets",
            **where,
            "config": options.config,
            "split": options.split,
            "text": options.text,
        }

    def documents(self, cursor: Mapping[str, int | str] | None = None) -> Iterator[Document]:
        """Yield the documents after `cursor`, the number of rows passed."""
        first = int(cursor["row"]) if cursor else 0
        for start in range(first, len(self._rows), ROWS_AT_ONCE):
            texts = self._rows[start : start + ROWS_AT_ONCE][self._options.text]
            for row, text in enumerate(texts, start + 1):
                rejected = None if isinstance(text, str) else f"row {row}: '{self._options.text}' is no text"
                yield Document("" if rejected else text, {"row": row}, rejected)

    def tokenizer_folder(self, choice: Tokenizer) -> Path | None:
        """A folder with the tokenizer's files from the hub, or None when the machine has it without."""
        return hub.tokenizer_folder(choice) if self._options.repository else None

    @cached_property
    def _rows(self) -> Any:
        """The split with its one column. Raises `LabError` when there is no such data set, split or column."""
        options = self._options
        loaded = self._from_hub() if options.folder is None else self._from_folder()
        if options.text not in loaded.column_names:
            raise LabError(
                f"data.source: there is no column '{options.text}'.", did_you_mean(options.text, loaded.column_names)
            )
        return loaded.select_columns([options.text])

    def _from_hub(self) -> Any:
        options = self._options
        assert options.repository is not None
        assert options.revision is not None
        hub.reach("datasets", options.repository, options.revision)
        try:
            return datasets.load_dataset(
                options.repository, options.config, split=options.split, revision=options.revision, streaming=False
            )
        except (ValueError,) + hub.transport_errors() as error:  # noqa: RUF005  mypy reads a sum, not a splat
            raise LabError(f"data.source: {options.repository} cannot be loaded: {error}") from error

    def _from_folder(self) -> Any:
        try:
            loaded = datasets.load_from_disk(str(self._folder))
        except (OSError, ValueError) as error:
            raise LabError(
                f"data.source.folder: {self._folder} holds no data set: {error}", "Write one with save_to_disk."
            ) from error
        if not isinstance(loaded, datasets.DatasetDict):
            return loaded
        if self._options.split not in loaded:
            raise LabError(
                f"data.source: {self._folder} has no split '{self._options.split}'.",
                did_you_mean(self._options.split, loaded),
            )
        return loaded[self._options.split]

    @property
    def _folder(self) -> Path:
        assert self._options.folder is not None
        folder = read_settings().project / Path(self._options.folder).expanduser()
        if not folder.is_dir():
            raise UsageError(f"data.source.folder: there is no folder {folder}.", "It is relative to the project.")
        return folder


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not _left_by_use(path):
            with path.open("rb") as file:
                found[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _left_by_use(path: Path) -> bool:
    """Whether it is what `map` or `filter` of `datasets` kept beside the data: it is no part of the data set."""
    state = path.parent / "state.json"
    return (
        path.match("cache-*.arrow")
        and state.is_file()
        and path.name not in state.read_text(encoding="utf-8", errors="replace")
    )
