"""Tags and a note that a person puts on a run."""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lab.errors import LabError, UsageError
from lab.runs import records
from lab.runs.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.runs.directory import RunDirectory

TAG = re.compile(r"[\w][\w.:/+-]{0,63}")


@dataclass(frozen=True)
class Tags:
    """What tags.json holds."""

    tags: tuple[str, ...] = ()
    note: str = ""


def read(run: RunDirectory) -> Tags:
    """The run's tags and note; none when the record cannot be read."""
    try:
        record = records.read_json(run.tags) or {}
    except LabError:
        return Tags()
    tags, note = record.get("tags"), record.get("note")
    names = [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
    return Tags(tuple(names), note if isinstance(note, str) else "")


def change(
    run: RunDirectory,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
    note: str | None = None,
    secrets: Secrets | None = None,
) -> Tags:
    """Add and remove tags, and replace the note unless it is None.

    Raises `UsageError` for a tag that is no word, and for what holds a token or a secret of this machine.
    """
    from lab.experiment.bounds import not_text  # a listing, which reads tags, needs no experiment

    added = list(add)
    require_fit(added, secrets)
    if fault := not_text(note):
        raise UsageError(f"The note {fault}.")
    _refuse([note or ""], secrets or Secrets({}))
    with _one_at_a_time(run):
        before = read(run)
        tags = tuple(sorted({*before.tags, *added} - set(remove)))
        after = Tags(tags, before.note if note is None else note)
        if after != before:
            records.write_json(run.tags, {"schema": 1, "tags": list(after.tags), "note": after.note})
    return after


@contextmanager
def _one_at_a_time(run: RunDirectory) -> Iterator[None]:
    """Let no other command change tags between reading and writing them; a lock on the run's folder means a resume."""
    handle = os.open(run.path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def require_fit(added: Iterable[str], secrets: Secrets | None = None) -> None:
    """Raise `UsageError` for a tag that is no word, and for one that holds a token or a secret of this machine."""
    added = list(added)
    _refuse(added, secrets or Secrets({}))
    for tag in added:
        if not TAG.fullmatch(tag):
            raise UsageError(f"'{tag}' is no tag.", "A tag is one word of letters, digits and . : / + - _")


def _refuse(texts: Iterable[str], secrets: Secrets) -> None:
    for text in texts:
        if what := secrets.what_is_in(text):
            raise UsageError(f"A tag or note contains {what}.", "Leave it out: it would be recorded.")
