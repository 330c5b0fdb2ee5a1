"""Archives that are the same bytes for the same files, and that are unpacked without trusting what they say."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import io
import os
import secrets
import shutil
import tarfile
import time
import zlib
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import records, regular

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNPACKED_LIMIT_BYTES = 2_000_000_000
UNUSED_SECONDS = 30 * 86400.0
"""Longer than any run: code that was not started for so long can go, and comes back from a run's own bundle."""
_CHUNK_BYTES = 1 << 20


def pack(files: Iterable[tuple[str, bytes, bool]]) -> bytes:
    """Pack (path, content, executable) files as tar.gz: no time, no owner, one order."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content, executable in sorted(files):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            member.mode = 0o755 if executable else 0o644
            tar.addfile(member, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), compresslevel=6, mtime=0)


def unpack(archive: Path, target: Path, limit_bytes: int = UNPACKED_LIMIT_BYTES) -> None:
    """Unpack regular files below the new folder `target`; refuse by name what would land elsewhere or is no file."""
    target.mkdir(parents=True)
    for path, content, executable in members(archive, limit_bytes):
        place = target / path
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(
                place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o555 if executable else 0o444
            )
            with os.fdopen(handle, "wb") as file:
                file.write(content)
        except FileExistsError as error:
            raise LabError(f"{archive}: holds '{path}' twice, or as a file and a folder") from error
        except OSError as error:
            raise regular.unwritable(place, error) from error


def members(archive: Path, limit_bytes: int = UNPACKED_LIMIT_BYTES) -> Iterator[tuple[str, bytes, bool]]:
    """Yield (path, content, executable) of each file in the archive, checked.

    Raises `LabError` naming the member that is a link, a device, or outside, or the archive that is damaged.
    """
    left = limit_bytes
    try:
        with gzip.open(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as tar:
            for member in tar:
                path = _checked(member, archive)
                if member.isdir():
                    continue
                left -= member.size
                if left < 0:
                    raise LabError(f"{archive}: unpacks to more than {limit_bytes:,} bytes")
                file = tar.extractfile(member)
                assert file is not None
                yield path, file.read(), bool(member.mode & 0o100)
            while left > 0 and stream.read(_CHUNK_BYTES):  # to the end, where gzip's own checksum is
                left -= _CHUNK_BYTES
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise LabError(f"{archive}: is not a readable archive: {error}") from error


def code_folder(archive: Path, sha256: str, store: Path) -> Path:
    """The archive's files in `<store>/code/<sha256>`, unpacked once and verified each time.

    A folder that somebody changed is replaced, and one that nothing used for a month goes. Raises `LabError` when the
    archive itself is not the one expected.
    """
    try:
        with regular.opened(archive) as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise regular.unreadable(archive, error) from error
    if actual != sha256:
        raise LabError(f"{archive}: is damaged: its SHA-256 is {actual}, expected {sha256}")
    target = store / "code" / sha256
    if not _is_intact(target, archive):
        _replace(target, archive)
    os.utime(target)
    _forget_unused(target.parent)
    return target


def _replace(target: Path, archive: Path) -> None:
    """Unpack beside the target and rename, so that nobody ever sees a part; a changed folder makes way first."""
    fresh = target.parent / f".{target.name}.{secrets.token_hex(4)}{records.PART}"
    old = fresh.with_suffix(".old")
    try:
        unpack(archive, fresh)
        for replaces in (False, True):
            try:
                os.rename(fresh, target)
                return
            except OSError:
                if replaces or _is_intact(target, archive):  # somebody else was faster, and it is whole
                    return
                os.rename(target, old)
    except OSError as error:
        raise regular.unwritable(target, error) from error
    finally:
        for leftover in (fresh, old):
            shutil.rmtree(leftover, ignore_errors=True)


def _forget_unused(folder: Path) -> None:
    """Remove the code of bundles that nothing started lately, and what a kill left half unpacked."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > UNUSED_SECONDS:
                shutil.rmtree(path)


def _is_intact(target: Path, archive: Path) -> bool:
    """Whether the folder holds the archive's files, as they are there, and nothing else."""
    if not target.is_dir():
        return False
    expected = {path: content for path, content, _ in members(archive)}
    found = {path.relative_to(target).as_posix(): path for path in target.rglob("*") if not path.is_dir()}
    if set(found) != set(expected) or any(path.is_symlink() for path in found.values()):
        return False
    return all(path.read_bytes() == expected[name] for name, path in found.items())


def _checked(member: tarfile.TarInfo, archive: Path) -> str:
    path = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()):
        kind = "a link" if member.issym() or member.islnk() else "not a regular file"
        raise LabError(f"{archive}: '{member.name}' is {kind}: refused")
    if path.is_absolute() or ".." in path.parts or (not path.parts and member.isreg()):
        raise LabError(f"{archive}: '{member.name}' would land outside: refused")
    return path.as_posix()
