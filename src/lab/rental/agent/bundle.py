"""The bundle's way in: hashed chunks in any order, checked as a whole, unpacked without trusting one name in it."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import threading
from typing import TYPE_CHECKING, Protocol

from . import durable
from .answers import Refused, refused_by_disk
from .paths import SHA256, Places, fault

if TYPE_CHECKING:
    from pathlib import Path


class Readable(Protocol):
    """Where a request's body comes from."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes; none at the end."""
        ...


MOST_BYTES = 4 * 1024**3
MOST_MEMBERS = 200_000
BLOCK_BYTES = 1024 * 1024
MOST_CHUNKS = 4096


class Uploads:
    """Chunks and bundles of one run. Arriving twice is as good as once; other bytes under one number are refused."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._lock = threading.Lock()

    def present(self, sha256: str) -> list[int]:
        """The chunks that are here whole; every one once the bundle is unpacked."""
        folder = self._folder(sha256)
        unpacked = durable.read(self._mark(sha256)).get("chunks")
        if unpacked:
            return list(range(unpacked))
        names = folder.iterdir() if folder.is_dir() else ()
        return sorted(int(path.name) for path in names if path.name.isdigit())

    def put(self, sha256: str, index: int, body: Readable, length: int, chunk_sha256: str) -> None:
        """Store one chunk when it has the hash that came with it."""
        if not 0 <= index < MOST_CHUNKS:
            raise Refused("invalid", f"chunk {index} is out of range")
        folder = self._folder(sha256)
        temporary = folder / f".{index}.{threading.get_ident()}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = _receive(body, length, temporary)
            if found != chunk_sha256:
                raise Refused("damaged", f"chunk {index} has sha256 {found}, not {chunk_sha256}")
            with self._lock:
                self._place(temporary, folder / str(index), found)
        except OSError as error:
            raise refused_by_disk(error) from error
        finally:
            temporary.unlink(missing_ok=True)

    def commit(self, sha256: str, size: int, into_run: bool = False) -> None:
        """Join the chunks, check the whole, unpack it beside its place and move it there.

        Code gets a folder of its own; what an earlier attempt left is laid into the run directory.
        """
        with self._lock:
            if durable.read(self._mark(sha256)):
                return
            try:
                self._unpack(sha256, size, into_run)
            except OSError as error:
                raise refused_by_disk(error) from error

    def _unpack(self, sha256: str, size: int, into_run: bool) -> None:
        folder, final = self._folder(sha256), self._places.code(sha256)
        archive, fresh = folder / "archive", final.with_name(f".{sha256}.new")
        count = self._join(folder, archive, size, sha256)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(final, ignore_errors=True)
        try:
            fresh.mkdir(parents=True)
            unpack(archive, fresh)
            if into_run:
                lay(fresh, self._places.run)
            else:
                os.replace(fresh, final)
        except (tarfile.TarError, EOFError, ValueError) as error:
            raise Refused("invalid", f"the bundle is no archive: {error}") from error
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
            archive.unlink(missing_ok=True)
        durable.write(self._mark(sha256), {"chunks": count})
        shutil.rmtree(folder, ignore_errors=True)

    def _join(self, folder: Path, archive: Path, size: int, sha256: str) -> int:
        digest, count, written = hashlib.sha256(), 0, 0
        with open(archive, "wb") as whole:
            while (chunk := folder / str(count)).is_file():
                with open(chunk, "rb") as part:
                    while block := part.read(BLOCK_BYTES):
                        digest.update(block)
                        written += whole.write(block)
                count += 1
        if digest.hexdigest() != sha256 or written != size:
            archive.unlink()
            if written >= size:
                shutil.rmtree(folder, ignore_errors=True)
            raise Refused("damaged", f"{written} of {size} bytes are here, with sha256 {digest.hexdigest()}")
        return count

    def _place(self, temporary: Path, final: Path, sha256: str) -> None:
        if final.exists() and hashlib.sha256(final.read_bytes()).hexdigest() != sha256:
            raise Refused("conflict", f"chunk {final.name} is here already with other content")
        os.replace(temporary, final)

    def _folder(self, sha256: str) -> Path:
        if not SHA256.match(sha256):
            raise Refused("invalid", "a bundle is named by its sha256")
        return self._places.uploads / sha256

    def _mark(self, sha256: str) -> Path:
        return self._places.state / f"bundle-{sha256}.json"


def _receive(body: Readable, length: int, path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        while length > 0:
            block = body.read(min(BLOCK_BYTES, length))
            if not block:
                raise Refused("damaged", "the chunk ended early")
            digest.update(block)
            file.write(block)
            length -= len(block)
    return digest.hexdigest()


def lay(fresh: Path, folder: Path) -> None:
    """Move every file to its place below the folder, over what is there."""
    for path in sorted(fresh.rglob("*")):
        target = folder / path.relative_to(fresh)
        if path.is_dir():
            target.mkdir(parents=True, exist_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack plain files and folders only; a link, a device or a name that leaves the folder refuses the whole."""
    total = 0
    with tarfile.open(archive, "r:*") as tar:
        for number, member in enumerate(tar):
            name = member.name[2:] if member.name.startswith("./") else member.name
            why = fault(name.rstrip("/"))
            if name in ("", "."):
                continue
            if why is not None or not (member.isreg() or member.isdir()):
                raise Refused("invalid", f"{member.name!r}: {why or 'it is neither a file nor a folder'}")
            total += member.size
            if total > MOST_BYTES or number > MOST_MEMBERS:
                raise Refused("invalid", "the bundle is larger than any bundle should be")
            _place_member(tar, member, folder / name)


def _place_member(tar: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    if member.isdir():
        path.mkdir(parents=True, exist_ok=True)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    content = tar.extractfile(member)
    mode = 0o755 if member.mode & 0o100 else 0o644
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(handle, "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file, BLOCK_BYTES)
