"""A token cache while it is made: a private folder that becomes the cache by one rename, or vanishes."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from array import array
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lab.data.cache import BYTES_TYPE, INDEX_TYPE, MANIFEST, TOKEN_BYTES, TOKEN_TYPE, file_sha256
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    import numpy.typing as npt

    from lab.data.documents import SplitName

PARTIAL = ".partial-"
BUFFER_BYTES = 1 << 20  # a document is a few kilobytes: one write for hundreds of them


class SplitWriter:
    """Appends the documents of one split and counts them; closes its files however the block ends."""

    def __init__(self, folder: Path, name: SplitName) -> None:
        self.name: SplitName = name
        self.documents = self.tokens = self.text_bytes = 0
        self.largest_token = -1
        self._folder = folder
        self._lengths = array("q")
        with on_disk(folder):
            self._file: BinaryIO = (folder / f"{name}.tokens").open("wb", buffering=BUFFER_BYTES)

    def append(self, document: npt.NDArray[np.uint32], text_bytes: int) -> None:
        """Add one document, its end-of-text included, that spelt so many bytes of text."""
        with on_disk(self._folder):
            self._file.write(document.astype(TOKEN_TYPE, copy=False).data)
        self._lengths.append(len(document))
        self.documents += 1
        self.tokens += len(document)
        self.text_bytes += text_bytes
        self.largest_token = max(self.largest_token, int(document.max()))

    def finish(self) -> None:
        """Bring everything to the disk, the index too."""
        lengths = np.frombuffer(self._lengths, dtype=np.int64)
        index = np.stack((np.cumsum(lengths) - lengths, lengths), axis=1).astype(INDEX_TYPE)
        with on_disk(self._folder):
            (self._folder / f"{self.name}.index").write_bytes(index.tobytes())
            self._file.flush()
            os.fsync(self._file.fileno())

    def __enter__(self) -> SplitWriter:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what could not be written was reported by `append` or `finish`
            self._file.close()

    def record(self) -> dict[str, object]:
        """What the manifest says about the split."""
        return {
            "documents": self.documents,
            "tokens": self.tokens,
            "pairs": self.tokens - self.documents,
            "bytes": self.text_bytes,
            "largest_token": self.largest_token,
        }


def write_token_bytes(folder: Path, token_bytes: npt.NDArray[np.uint16]) -> None:
    """Store how many bytes of text each id stands for."""
    (folder / TOKEN_BYTES).write_bytes(token_bytes.astype(BYTES_TYPE).tobytes())


def files_of(folder: Path) -> dict[str, dict[str, object]]:
    """Size and SHA-256 of each file that stands in the folder, for its manifest."""
    return {
        path.name: {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for path in sorted(folder.iterdir())
        if path.name != MANIFEST
    }


@contextmanager
def building(final: Path) -> Iterator[Path]:
    """Yield a private folder that becomes `final` when the block succeeds and is removed when it does not.

    Whoever finishes second keeps the first one's cache. What crashes left is removed by the next to build.
    """
    with on_disk(final.parent):
        final.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(final.parent)
        partial, lock = _claimed(final)
    try:
        yield partial
        with on_disk(final.parent):
            _publish(partial, final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        os.close(lock)


@contextmanager
def on_disk(folder: Path) -> Iterator[None]:
    """Turn what the disk refuses inside the block into a `LabError` naming the folder."""
    try:
        yield
    except OSError as error:
        raise LabError(
            f"{folder}: the token cache cannot be written: {error.strerror or error}",
            "Free space or permissions there, or set LAB_STORE to another folder. Nothing partial was kept.",
        ) from error


def _claimed(final: Path) -> tuple[Path, int]:
    """A new private folder and the lock that says its maker lives."""
    while True:
        partial = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{final.name}-", dir=final.parent))
        lock = os.open(partial, os.O_RDONLY)
        with suppress(OSError):  # a file system without locks: then nobody removes what a crash left
            fcntl.flock(lock, fcntl.LOCK_EX)
        if partial.exists():  # else another preparation took it for abandoned before it was locked
            partial.chmod(0o755)
            return partial, lock
        os.close(lock)


def _remove_abandoned(folder: Path) -> None:
    for partial in folder.glob(f"{PARTIAL}*"):
        try:
            lock = os.open(partial, os.O_RDONLY)
        except OSError:
            continue  # its maker just finished
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(partial, ignore_errors=True)
        except OSError:
            pass  # its maker lives, or the file system cannot say
        finally:
            os.close(lock)


def _publish(partial: Path, final: Path) -> None:
    try:
        partial.rename(final)
    except OSError:
        if not (final / MANIFEST).is_file():  # else another preparation of the same was first
            raise
