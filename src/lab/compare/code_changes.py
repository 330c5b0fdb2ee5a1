"""The diff of the files that ran, from the bundles that both runs keep."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from difflib import unified_diff
from typing import TYPE_CHECKING

from lab.compare.differences import differing_files
from lab.compare.formats import counted
from lab.compare.plugin_files import PLUGIN
from lab.runs import regular

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.compare.facts import RunFacts

LONGEST = 400_000
"""Files above this many bytes are named, not compared line by line."""


@dataclass(frozen=True)
class FileChange:
    """One file that is not the same in both bundles; `lines` is its unified diff, `note` why there is none."""

    path: str
    lines: tuple[str, ...]
    note: str = ""

    @property
    def heading(self) -> str:
        """What became of the file: `2 lines added, 1 line removed`, or why nobody can tell line by line."""
        counts = ((self.added, "added"), (self.removed, "removed"))
        words = ", ".join(f"{counted(count, 'line')} {what}" for count, what in counts if count)
        return self.note or words or "the same lines, ended otherwise"

    @property
    def added(self) -> int:
        """Lines that only the second run's file has."""
        return sum(line.startswith("+") and not line.startswith("+++") for line in self.lines)

    @property
    def removed(self) -> int:
        """Lines that only the first run's file has."""
        return sum(line.startswith("-") and not line.startswith("---") for line in self.lines)


def code_changes(a: RunFacts, b: RunFacts) -> tuple[FileChange, ...]:
    """Every file that a worker may run and that differs, in order of path."""
    found = differing_files(a, b)
    if not found:
        return ()
    texts_a, texts_b = _texts(a, found), _texts(b, found)
    return tuple(
        _plugin_change(path, *hashes) if path.startswith(PLUGIN) else _file_change(path, texts_a, texts_b)
        for path, hashes in found.items()
    )


def _plugin_change(path: str, a: str | None, b: str | None) -> FileChange:
    what = f"used by run {'B' if a is None else 'A'} alone" if a is None or b is None else "other files in each run"
    return FileChange(path, (), f"{what}; installed beside lab, so no bundle holds them to show their lines")


def _file_change(path: str, a: dict[str, str | None] | None, b: dict[str, str | None] | None) -> FileChange:
    if a is None or b is None:
        which = "both runs" if a is None and b is None else f"run {'A' if a is None else 'B'}"
        return FileChange(path, (), f"the bundle of {which} is not there to look into")
    one, other = a.get(path, ""), b.get(path, "")
    if one is None or other is None:
        return FileChange(path, (), "too long or not text")
    lines = unified_diff(one.splitlines(), other.splitlines(), f"A/{path}", f"B/{path}", lineterm="")
    return FileChange(path, tuple(lines))


def _texts(facts: RunFacts, paths: Iterable[str]) -> dict[str, str | None] | None:
    """The wanted files of the bundle; None for the whole when it cannot be read, None for a file that is no text."""
    wanted = set(paths)
    found: dict[str, str | None] = {}
    try:
        with regular.opened(facts.run.bundle) as file, tarfile.open(fileobj=file) as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if name in wanted and member.isfile():
                    found[name] = _text(archive, member)
    except (OSError, tarfile.TarError, EOFError):
        return None
    return found


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str | None:
    file = archive.extractfile(member) if member.size <= LONGEST else None
    if file is None:
        return None
    try:
        return file.read().decode()
    except UnicodeDecodeError:
        return None
