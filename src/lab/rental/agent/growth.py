"""What records and logs have grown by; the controller proves by the hash of its last bytes how far it is."""

from __future__ import annotations

import base64
import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 1024 * 1024
"""What one answer carries of all files together."""
TAIL_BYTES = 4096
LONGEST_SECRET = 1024


def look(run: Path, cursors: dict[str, dict[str, Any]], secrets: list[bytes]) -> list[dict[str, Any]]:
    """New bytes of every growing file, up to a limit; from its start when what is at home is no prefix of it."""
    grown, left = [], MOST_BYTES
    for path, file in growing(run):
        if left <= 0:
            break
        try:
            piece = _grown(file, cursors.get(path), secrets, left)
        except OSError:
            continue
        if piece is not None:
            offset, data = piece
            grown.append({"path": path, "offset": offset, "data": base64.b64encode(data).decode()})
            left -= len(data)
    return grown


def growing(run: Path) -> Iterator[tuple[str, Path]]:
    """Records and logs, those of several runs in one job included."""
    for folder, _, names in os.walk(run):
        for name in sorted(names):
            file = Path(folder, name)
            is_log = name.endswith(".log") and os.path.basename(folder) == "logs"
            if (name.endswith(".jsonl") or is_log) and not file.is_symlink():
                yield file.relative_to(run).as_posix(), file


def replaced(run: Path) -> list[dict[str, Any]]:
    """Records and checkpoints that are written as a whole, with a version that changes whenever they are."""
    found = []
    for folder, _, names in os.walk(run):
        for name in sorted(names):
            file = Path(folder, name)
            if name.startswith(".") or not name.endswith((".json", ".pt")) or file.is_symlink():
                continue
            try:
                status = file.stat()
            except OSError:
                continue
            if not stat.S_ISREG(status.st_mode):
                continue
            path = file.relative_to(run).as_posix()
            found.append({"path": path, "size": status.st_size, "version": version(status)})
    return found


def opened(file: Path) -> BinaryIO:
    """Open a plain file for reading; a pipe would wait for its other end, and the agent for the pipe."""
    content = os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    if not stat.S_ISREG(os.fstat(content.fileno()).st_mode):
        content.close()
        raise FileNotFoundError(2, "it is no plain file")
    return content


def version(status: os.stat_result) -> str:
    """What tells one state of a file from another."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def _grown(file: Path, cursor: dict[str, Any] | None, secrets: list[bytes], left: int) -> tuple[int, bytes] | None:
    with opened(file) as content:
        size = os.fstat(content.fileno()).st_size
        offset = int(cursor["offset"]) if cursor else 0
        start = max(0, offset - TAIL_BYTES - LONGEST_SECRET)
        content.seek(start)
        seen = hide(content.read(offset - start + left + LONGEST_SECRET), secrets)
        tail = seen[max(0, offset - TAIL_BYTES - start) : offset - start]
        if cursor and (offset > size or hashlib.sha256(tail).hexdigest() != cursor["tail_sha256"]):
            content.seek(0)
            return 0, hide(content.read(left + LONGEST_SECRET), secrets)[:left]
        new = seen[offset - start : offset - start + left]
        return (offset, new) if new else None


def hide(text: bytes, secrets: list[bytes]) -> bytes:
    """Cover forwarded values that a stage printed, without changing any length."""
    for secret in secrets:
        text = text.replace(secret, b"*" * len(secret))
    return text
