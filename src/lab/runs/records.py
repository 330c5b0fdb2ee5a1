"""Reading and writing a run's records: atomic JSON files, and JSON lines that survive a kill."""

from __future__ import annotations

import json
import math
import os
import tempfile
from typing import TYPE_CHECKING, Any

from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

Record = dict[str, Any]
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def write_json(path: Path, record: Mapping[str, object]) -> None:
    """Replace the file as a whole: a reader sees the old record or the new one, never a part."""
    text = json.dumps(_spelled(record), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: Path, content: bytes) -> None:
    """Write to a neighbour, sync, rename; the neighbour is removed when anything fails."""
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_json(path: Path) -> Record | None:
    """The record, or None where there is no such file.

    Raises `LabError` naming the file when it is not a JSON object.
    """
    try:
        text = path.read_text(encoding="utf-8")
        record = json.loads(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise LabError(f"{path}: is not a readable JSON record: {error}") from error
    if not isinstance(record, dict):
        raise LabError(f"{path}: holds a {type(record).__name__} where a JSON object belongs")
    return {key: _number(value) for key, value in record.items()}


def append_line(path: Path, record: Mapping[str, object]) -> None:
    """Add one line with one write, so that a reader meanwhile sees whole lines and at most one torn end."""
    line = json.dumps(_spelled(record), separators=(",", ":"), ensure_ascii=True, allow_nan=False) + "\n"
    with open(path, "ab", buffering=0) as file:
        file.write(line.encode())


def read_lines(path: Path) -> Iterator[Record]:
    """Yield the whole lines there are; a torn last line (a kill, a write in progress) is not one."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        for raw in file:
            if not raw.endswith(b"\n"):
                return
            try:
                record = json.loads(raw)
            except (ValueError, RecursionError):
                continue  # a line torn by a full disk; `torn_lines` counts them
            if isinstance(record, dict):
                yield {key: _number(value) for key, value in record.items()}


def torn_lines(path: Path) -> int:
    """How many lines of the file are not whole records, a torn end included."""
    if not path.is_file():
        return 0
    with path.open("rb") as file:
        return sum(1 for raw in file) - sum(1 for _ in read_lines(path))


def _spelled(value: object) -> object:
    """Spell what JSON has no number for, so that strict parsers read the file too."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    if isinstance(value, dict):
        return {str(key): _spelled(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(inner) for inner in value]
    return value


def _number(value: object) -> object:
    return _SPELLED.get(value, value) if isinstance(value, str) else value
