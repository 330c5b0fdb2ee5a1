"""Whether the file of a checkpoint is whole, told without the library that wrote it."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.runs import regular

if TYPE_CHECKING:
    from pathlib import Path

ANEW = "Bring back a copy of this file; or move it away, and `lab resume` trains this run from its start."


def require_whole(path: Path) -> None:
    """Check every record's checksum: torch does not, and would train on with a flipped byte.

    Raises `LabError` naming the record, and `FileNotFoundError` where there is no checkpoint.
    """
    try:
        with regular.opened(path) as file, zipfile.ZipFile(file) as archive:
            damaged = archive.testzip()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise regular.unreadable(path, error) from error
    except Exception as error:  # a damaged directory of the archive makes zipfile raise anything
        raise LabError(f"{path}: is not a checkpoint that can be loaded: {error}", ANEW) from error
    if damaged is not None:
        raise LabError(f"{path}: is damaged: {damaged} does not have the content that was saved.", ANEW)
