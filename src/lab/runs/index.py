"""The list of runs: one row for each directory, remembered as long as the directory stays the same.

What is remembered is only a cache: without it every row is read again and is the same.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import contextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from lab.runs import directory, records
from lab.runs.directory import RunDirectory
from lab.runs.row import Row, read_row
from lab.runs.status import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from lab.settings import Settings

Cache = dict[str, list[Any]]
"""By the run's id: when its directory last changed, then the values of its row."""
CACHE_NAME = "runs-index.json"
FEW = 200
"""So many rows are read from their records sooner than the cache of thousands is."""
_FIELDS = [field.name for field in fields(Row) if field.name not in ("id", "path")]
_SCHEMA = 2
"""One more whenever a value comes to mean something else than before."""
_TAGS = 1 + _FIELDS.index("tags")
_SETTLED_NANOSECONDS = 2_000_000_000
"""A directory that changed this recently may change again within one tick of the file system's clock."""


def rows(settings: Settings, newest: int | None = None) -> list[Row]:
    """The rows of all runs, or of the newest ones, oldest first."""
    folder = settings.runs_folder
    with _readable(folder):
        names = directory.named(folder)
    if newest is not None and newest <= FEW:
        return [read_row(RunDirectory(folder / name)) for name in names[max(0, len(names) - newest) :]]
    file = settings.store_folder / CACHE_NAME
    cache = _remembered(file)
    fresh: Cache = {}
    found = []
    now = time.time_ns()
    for name in names if newest is None else names[max(0, len(names) - newest) :]:
        stamp = _stamp(f"{folder}/{name}")
        known = cache.get(name)
        if known is not None and known[0] == stamp:
            found.append(_row(folder / name, known))
            continue
        row = read_row(RunDirectory(folder / name))
        found.append(row)
        if row.status in FINAL and now - stamp > _SETTLED_NANOSECONDS:
            fresh[name] = [stamp, *(getattr(row, field) for field in _FIELDS)]
    _remember(file, cache, fresh, names)
    return found


def count(settings: Settings) -> int:
    """How many runs there are."""
    with _readable(settings.runs_folder) as folder:
        return directory.count(folder)


@contextmanager
def _readable(folder: Path) -> Iterator[Path]:
    try:
        yield folder
    except OSError as error:
        raise LabError(f"{folder}: cannot be read: {error.strerror}") from error


def _stamp(path: str) -> int:
    """When a directory last got, lost or replaced a file, as every record of a run that ended is; -1 for nothing."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _remembered(file: Path) -> Cache:
    try:
        content = json.loads(file.read_bytes())
        if content["fields"] != _FIELDS or content["schema"] != _SCHEMA:  # written by another version of lab
            return {}
        return {name: entry for name, entry in content["rows"].items() if len(entry) == len(_FIELDS) + 1}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def _remember(file: Path, cache: Cache, fresh: Cache, names: Iterable[str]) -> None:
    """Write the cache when it would change; a store that cannot be written costs time and nothing else."""
    known = {**cache, **fresh}
    kept = {name: known[name] for name in names if name in known}
    if not fresh and len(kept) == len(cache):
        return
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        records.write_bytes(file, _written(kept))
    except (OSError, LabError):
        return


def _written(rows: Cache) -> bytes:
    return json.dumps({"schema": _SCHEMA, "fields": _FIELDS, "rows": rows}, separators=(",", ":")).encode()


def _row(path: Path, known: list[Any]) -> Row:
    known[_TAGS] = tuple(known[_TAGS])
    return Row(path.name, path, *known[1:])
