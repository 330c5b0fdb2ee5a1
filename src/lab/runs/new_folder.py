"""A new folder that a person named: it is there as a whole or not at all, and every error names it."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


def in_the_way(path: Path) -> Path | None:
    """What is no folder where `path` needs one, at `path` or above it; None when nothing is."""
    there = next((one for one in (path, *path.parents) if os.path.lexists(one)), None)
    return None if there is None or there.is_dir() else there


@contextmanager
def new_folder(target: Path, why: str, do: str) -> Iterator[Path]:
    """A folder to fill, which becomes `target` when all is written; an error leaves nothing of it.

    Raises `UsageError` when `target` exists, for the reason `why`, and where no folder can be made; `LabError` when
    what belongs in it cannot be written.
    """
    target = target.absolute()
    if os.path.lexists(target):
        raise UsageError(f"{target} exists: {why}.", do)
    building = _made(target)
    try:
        yield building
        building.chmod(0o755)
        building.rename(target)
    except LabError as error:
        error.what = error.what.replace(str(building), str(target))
        raise
    except OSError as error:
        if os.path.lexists(target):  # made by another command meanwhile
            raise UsageError(f"{target} exists: {why}.", do) from error
        if error.filename is not None and not str(error.filename).startswith(str(building)):
            raise  # about another file; a full disk names none
        raise LabError(f"{target}: cannot be written: {error.strerror}", "Nothing is left there.") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _made(target: Path) -> Path:
    if blocked := in_the_way(target.parent):
        raise UsageError(f"{target} cannot be made: {blocked} is not a folder.", "Choose another place.")
    try:
        with suppress(FileNotFoundError):
            os.lstat(target)  # a name that is too long is found before anything is made
        target.parent.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f".{target.name[:100]}.", dir=target.parent))
    except OSError as error:
        raise UsageError(f"{target} cannot be made: {error.strerror}.", "Choose another place.") from error
