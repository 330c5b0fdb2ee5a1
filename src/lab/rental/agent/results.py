"""The results: a frozen list with the hash of every file and chunk, and the bytes of what is on it."""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from .answers import Refused, refused_by_disk
from .growth import opened, version
from .paths import Places, fault, pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CHUNK_BYTES = 8 * 1024 * 1024
BLOCK_BYTES = 1024 * 1024
HELD = "held:"


class Results:
    """Hashes in the background, so that no request takes longer than a proxy waits."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = threading.Lock()
        self._listing: dict[str, Any] | None = None
        self._hashing: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._held: dict[str, Any] = {}
        self._holding: threading.Thread | None = None

    def manifest(self, patterns: Sequence[str], fresh: bool) -> dict[str, Any] | None:
        """The list, or None while its files are being hashed; `fresh` begins anew."""
        with self._lock:
            busy = self._hashing is not None and self._hashing.is_alive()
            if not busy and (fresh or (self._listing is None and self._failure is None)):
                self._listing, self._failure = None, None
                self._hashing = threading.Thread(target=self._list, args=(list(patterns),), daemon=True)
                self._hashing.start()
            if self._failure is not None:
                raise Refused("invalid", f"the results cannot be listed: {self._failure}")
            return self._listing

    def pin(self, path: str, wanted: str) -> dict[str, Any] | None:
        """Hold a file by a second link to it and hash it; None until that is done."""
        with self._lock:
            if self._held.get("path") == path and self._held.get("version") == wanted:
                return self._held.get("file")
            if self._holding is not None and self._holding.is_alive():
                return None
            link = self._hold(path)
            self._held = {"path": path, "version": wanted, "link": link}
            self._holding = threading.Thread(target=self._hash_held, args=(self._held,), daemon=True)
            self._holding.start()
            return None

    def open(self, path: str) -> tuple[BinaryIO, int]:
        """A listed or held file and its size, for reading; refused when it is not what was listed any more."""
        with self._lock:
            if path.startswith(HELD):
                entry, file = self._held.get("file"), self._held.get("link")
            else:
                listed = (self._listing or {}).get("by_path", {})
                entry, file = listed.get(path), self._places.run / path
        if entry is None or file is None or entry["path"] != path:
            raise Refused("gone", f"{path!r} is not on the list of results")
        try:
            content = opened(file)
        except OSError as error:
            raise Refused("gone", f"{path!r} is not there any more: {error.strerror}") from error
        if os.fstat(content.fileno()).st_size != entry["size"]:
            content.close()
            raise Refused("conflict", f"{path!r} has changed since it was listed")
        return content, int(entry["size"])

    def _list(self, patterns: list[str]) -> None:
        try:
            wanted = [pattern(glob) for glob in patterns]
            files, skipped = [], []
            for path, file, why in walk(self._places.run):
                if why is not None:
                    skipped.append({"path": path, "why": why})
                elif any(one.match(path) for one in wanted):
                    try:
                        files.append(hashed(path, file))
                    except FileNotFoundError:
                        skipped.append({"path": path, "why": "it disappeared while it was hashed"})
            by_path = {entry["path"]: entry for entry in files}
            self._listing = {"files": files, "skipped": skipped, "by_path": by_path}
        except BaseException as error:
            self._failure = error

    def _hold(self, path: str) -> Path:
        if fault(path) is not None:
            raise Refused("invalid", f"{path!r} is no file of the run")
        shutil.rmtree(self._places.held, ignore_errors=True)
        link = self._places.held / "file"
        try:
            self._places.held.mkdir(parents=True, exist_ok=True)
            os.link(self._places.run / path, link, follow_symlinks=False)
        except FileNotFoundError as error:
            raise Refused("gone", f"{path!r} is not there") from error
        except OSError as error:
            raise refused_by_disk(error) from error
        return link

    def _hash_held(self, held: dict[str, Any]) -> None:
        try:
            held["version"] = version(os.stat(held["link"]))
            held["file"] = hashed(HELD + held["version"], held["link"])
        except OSError:
            held["version"] = ""  # the next request holds it anew


def walk(run: Path) -> Iterator[tuple[str, Path, str | None]]:
    """Every entry below the folder in a fixed order, with why it stays behind; no link is ever followed."""
    pending = [("", run)]
    while pending:
        prefix, folder = pending.pop()
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = prefix + entry.name
                if entry.is_dir(follow_symlinks=False) and _spelled(path) == path:
                    pending.append((path + "/", Path(entry.path)))
                else:
                    yield _spelled(path), Path(entry.path), _why_not(entry, path)


def _why_not(entry: os.DirEntry[str], path: str) -> str | None:
    if entry.is_symlink():
        return "it is a link"
    if _spelled(path) != path:
        return "its name is not UTF-8"
    if not entry.is_file(follow_symlinks=False):
        return "it is neither a file nor a folder"
    return "it was never finished" if entry.name.startswith(".") and entry.name.endswith(".part") else None


def _spelled(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode()


def hashed(path: str, file: Path) -> dict[str, Any]:
    """One entry of the list: the hash of the whole and of each chunk, read once."""
    whole, chunks, size = hashlib.sha256(), [], 0
    with opened(file) as content:
        while True:
            chunk, left = hashlib.sha256(), CHUNK_BYTES
            while left and (block := content.read(min(BLOCK_BYTES, left))):
                whole.update(block)
                chunk.update(block)
                left -= len(block)
            size += CHUNK_BYTES - left
            if left < CHUNK_BYTES:
                chunks.append(chunk.hexdigest())
            if left:
                return {"path": path, "size": size, "sha256": whole.hexdigest(), "chunks": chunks}
