"""The list of runs: one row for each directory, remembered as long as the directory stays the same.

What is remembered is only a cache: without it every row is read again and is the same.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import records
from lab.runs.directory import CONFIG, RunDirectory, age
from lab.runs.row import Row, read_row
from lab.runs.status import FINAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from lab.runs.records import Record
    from lab.settings import Settings

Cache = dict[str, tuple[int, "Record"]]
"""By the run's id: when its directory last changed, and its row."""
CACHE_NAME = "runs-index.json"
CACHE_SCHEMA = 1
_SETTLED_NANOSECONDS = 2_000_000_000
"""A directory that changed this recently may change again within one tick of the file system's clock."""


def rows(settings: Settings, newest: int | None = None) -> list[Row]:
    """The rows of all runs, or of the newest ones, oldest first."""
    folder = settings.runs_folder
    names = sorted(_names(folder), key=age)
    wanted = names if newest is None else names[max(0, len(names) - newest) :]
    file = settings.store_folder / CACHE_NAME
    cache = _remembered(file)
    fresh: Cache = {}
    found = []
    now = time.time_ns()
    for name in wanted:
        path = folder / name
        stamp = _stamp(path)
        known = cache.get(name)
        if known is not None and known[0] == stamp:
            found.append(_row(path, known[1]))
            continue
        row = read_row(RunDirectory(path))
        found.append(row)
        if row.status in FINAL and now - stamp > _SETTLED_NANOSECONDS:
            fresh[name] = (stamp, _record(row))
    _remember(file, cache, fresh, names)
    return found


def count(settings: Settings) -> int:
    """How many runs there are."""
    return len(_names(settings.runs_folder))


def _names(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if os.path.isfile(os.path.join(entry.path, CONFIG))]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LabError(f"{folder}: cannot be read: {error.strerror}") from error


def _stamp(path: Path) -> int:
    """When the directory last got, lost or replaced a file: every record of a run that ended is replaced as a whole."""
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def _remembered(file: Path) -> Cache:
    try:
        content = json.loads(file.read_bytes())
        entries = content["rows"].items() if content["schema"] == CACHE_SCHEMA else ()
        return {name: (stamp, record) for name, (stamp, record) in entries if isinstance(record, dict)}
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
        records.write_bytes(file, json.dumps({"schema": CACHE_SCHEMA, "rows": kept}, separators=(",", ":")).encode())
    except (OSError, LabError):
        return


def _record(row: Row) -> Record:
    return {key: value for key, value in asdict(row).items() if key not in ("id", "path")}


def _row(path: Path, record: Record) -> Row:
    known = {key: value for key, value in record.items() if key in Row.__dataclass_fields__}
    return Row(id=path.name, path=path, **{**known, "tags": tuple(known.get("tags") or ())})
