"""Whether a tracker only mirrors: it reads the run directory alone, leaves it as it was, and may sync at any time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.conformance import require
from lab.conformance.sample import SampleRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lab.contracts import Tracker
    from lab.runs.directory import RunDirectory

    Build = Callable[[], Tracker]
    Check = Callable[[Build, RunDirectory], str | None]


def check_tracker(
    name: str,
    build: Build,
    folder: Path,
    *,
    read: Callable[[], object] | None = None,
    stores: Sequence[str] = (".lab",),
) -> None:
    """Sync a sample run that is under way, then the same run ended, each twice and by a tracker of its own.

    `name` is the part's: the tracker leaves its link in `<name>.json` of the run directory, and may keep a folder
    `<name>` there. A `close()` that it may have is called as at the end of its process. Each sample project is made in
    `folder` and is the working directory meanwhile. `read` gives what the mirror of the project in the working
    directory holds, without what differs from one sync to the next: then a second sync must change nothing, and syncing
    on the way must lead where one sync at the end leads. `stores` are the folders of the project in which the tracker
    may keep files.
    """
    with _project(name, folder / "on-the-way", stores) as check:
        sample = SampleRun(Path.cwd() / ".runs")
        links = [check(build, sample.begin())]
        _check_again(build, check, sample.directory, read)
        links.append(check(build, sample.finish()))
        _check_again(build, check, sample.directory, read)
        require(len(set(links)) == 1, f"the link of one run changes: {links[0]} becomes {links[1]}")
        on_the_way = read() if read else None
    with _project(name, folder / "at-the-end", stores) as check:
        sample = SampleRun(Path.cwd() / ".runs")
        sample.begin()
        check(build, sample.finish())
        at_the_end = read() if read else None
    require(on_the_way == at_the_end, "syncing on the way does not lead where one sync at the end leads")


@contextlib.contextmanager
def _project(name: str, folder: Path, stores: Sequence[str]) -> Iterator[Check]:
    """A project with an experiment and a mark, and the function that syncs one of its runs under watch."""
    (folder / "experiments").mkdir(parents=True)
    (folder / "experiments" / "sample.toml").write_text("# not a tracker's business\n", encoding="utf-8")
    (folder / ".lab").mkdir()

    def check(build: Build, run: RunDirectory) -> str | None:
        allowed = [run.path, *(folder / store for store in stores), folder / ".env"]
        return _synced(name, build, run, folder, allowed)

    with contextlib.chdir(folder):
        yield check


def _check_again(
    build: Build,
    check: Check,
    run: RunDirectory,
    read: Callable[[], object] | None,
) -> None:
    before = read() if read else None
    check(build, run)
    after = read() if read else None
    require(before == after, "a second sync of the same directory changes the mirror")


def _synced(name: str, build: Build, run: RunDirectory, project: Path, allowed: Sequence[Path]) -> str | None:
    before = _content(run.path)
    with _opened() as opened:
        tracker = build()
        link = tracker.sync(run)
        close: Callable[[], object] | None = getattr(tracker, "close", None)
        if close is not None:
            close()
    after = _content(run.path)
    changed = sorted(file for file in before.keys() | after.keys() if before.get(file) != after.get(file))
    strays = [file for file in changed if file != f"{name}.json" and not file.startswith(f"{name}/")]
    require(not strays, f"the tracker changes {', '.join(strays)} in the run directory")
    below = {path for path in map(Path, opened) if path.is_relative_to(project) and path.is_file()}
    outside = sorted(str(path) for path in below if not any(path.is_relative_to(place) for place in allowed))
    require(not outside, f"the tracker opens {', '.join(outside)}, but a tracker reads the run directory alone")
    require(link is None or isinstance(link, str), f"sync() returns {link!r}, not a link or None")
    return link


def _content(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


_listeners: list[list[str]] = []
_hooked = False


@contextlib.contextmanager
def _opened() -> Iterator[list[str]]:
    """Which files this process opens meanwhile; an audit hook cannot be removed, so one serves all."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_hear)
        _hooked = True
    heard: list[str] = []
    _listeners.append(heard)
    try:
        yield heard
    finally:
        _listeners.remove(heard)


def _hear(event: str, arguments: tuple[object, ...]) -> None:
    if _listeners and event == "open" and isinstance(arguments[0], (str, bytes)):
        path = os.path.abspath(os.fsdecode(arguments[0]))
        for heard in _listeners:
            heard.append(path)
