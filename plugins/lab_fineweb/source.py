"""The `fineweb` source: shards in order of their path, rows in order within, and a cursor after each document."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from lab.contracts import Document
from lab.data import hub
from lab.data.parquet import rows
from lab.errors import LabError
from lab_fineweb.options import FineWebOptions
from lab_fineweb.published import counts
from lab_fineweb.shards import open_file, parquet_files

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from pathlib import Path

    from lab.experiment.sections import Data, Tokenizer

TRIES = 3
"""For one place in a shard; the client itself retries each range before that."""


class FineWeb:
    """Documents of one commit. Their identity needs no network, so a prepared cache is found without one."""

    def __init__(self, options: FineWebOptions) -> None:
        self._options = options

    def identity(self) -> Mapping[str, object]:
        """A commit decides every byte below it."""
        options = self._options
        return {
            "name": "fineweb",
            "repository": options.repository,
            "revision": options.revision,
            "folder": options.folder,
            "text": options.text,
        }

    def documents(self, cursor: Mapping[str, int | str] | None = None) -> Iterator[Document]:
        """Yield the documents after `cursor`: shard, row group, rows passed of it."""
        options = self._options
        hub.reach("datasets", options.repository, options.revision)
        shards = parquet_files(options.repository, options.revision, options.folder)
        first = int(cursor["shard"]) if cursor else 0
        for number, path in enumerate(shards):
            if number >= first:
                place = cursor if cursor and number == first else {}
                with closing(self._shard(number, path, int(place.get("group", 0)), int(place.get("row", 0)))) as found:
                    yield from found

    def tokenizer_folder(self, choice: Tokenizer) -> Path | None:
        """A folder with the tokenizer's files at its commit from the hub, or None when the machine has it without."""
        return hub.tokenizer_folder(choice)

    def published(self, data: Data) -> Mapping[str, Mapping[str, int]] | None:
        """The published run's counts, for its commit, subset and choice of data."""
        return counts(data) if self._options == FineWebOptions() else None

    def _shard(self, number: int, path: str, group: int, row: int) -> Generator[Document]:
        """Read one shard, opening it again where a connection broke off, as long as each try gets further."""
        options = self._options
        failures = 0
        while True:
            try:
                with open_file(options.repository, options.revision, path) as file:
                    for found in rows(file, path, options.text, group, row):
                        group, row, failures = found.group, found.row, 0
                        yield Document(found.text, {"shard": number, "group": group, "row": row}, found.rejected)
                return
            except hub.transport_errors() as error:
                failures += 1
                if failures == TRIES:
                    raise LabError(
                        f"{path} of {options.repository}: cannot be read after row {row} of row group {group}: {error}",
                        "Try again later: the hub or the connection fails.",
                    ) from error
