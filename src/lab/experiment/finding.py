"""From an experiment's name to its file; a file that is there but cannot be used is told as that, not as missing."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_PROJECT = "That folder is not there: change to the folder of your project, or name it in LAB_PROJECT."
LONGEST_NAME = 100
NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST_NAME - 1}}}")
PACKAGED = Path(__file__).parent.parent / "experiments"  # where a wheel brings ours


def names(folder: Path) -> list[str]:
    """The experiments that can be named: those in `folder` and those that lab brings."""
    return sorted({path.stem for path in _files(folder) if NAME.fullmatch(path.stem) and not _unusable(path)})


def listed(folder: Path) -> list[str]:
    """The same with those whose file cannot be used; an editor's hidden files are none."""
    return sorted({path.stem for path in _files(folder)})


def locate(name: str, places: Sequence[Path], asker: str = "") -> Path:
    """The file called `name`: a path (for `extends`, from the folder of the file that says so), else in `places`.

    Those that lab brings come last.

    Raises `UsageError`, beginning with `asker`, for a name that nothing has and for a file that cannot be used.
    """
    if name.endswith(".toml"):
        path = places[0] / name if asker else Path(name)
        if not os.path.lexists(path):
            raise UsageError(f"{asker}there is no file {path}")
        return _nameable(_usable(path, asker).resolve(), asker)
    for place in (*places, PACKAGED):
        path = place / f"{name}.toml"
        if name and path.parent == place and os.path.lexists(path):
            return _nameable(_usable(path, asker), asker)
    known = sorted({known for place in places for known in names(place)})
    lost = "" if asker or places[0].is_dir() else NO_PROJECT
    do = " ".join(filter(None, (did_you_mean(name, known), lost)))
    raise UsageError(f"{asker}no experiment is called '{name}' in {places[0]}", do)


def _files(folder: Path) -> Iterator[Path]:
    for place in (folder, PACKAGED):
        if place.is_dir():
            yield from (path for path in place.glob("*.toml") if not path.name.startswith("."))


def _usable(path: Path, asker: str) -> Path:
    if what := _unusable(path):
        raise UsageError(f"{asker}{path}: {what}.", "An experiment is a file with TOML in it.")
    return path


def _nameable(path: Path, asker: str) -> Path:
    if not NAME.fullmatch(path.stem):
        raise UsageError(
            f"{asker}{path}: an experiment's name is its file's name, and becomes part of its runs' names.",
            f"Use at most {LONGEST_NAME} letters, digits, dots, dashes and underscores; begin with a letter or digit.",
        )
    return path


def _unusable(path: Path) -> str:
    """What is there in place of a file; empty for a file."""
    try:
        if path.is_file():
            return ""
        if path.is_dir():
            return "is a folder, not a file"
        if path.is_symlink() and not path.exists():
            return "is a link to nothing"
    except OSError as error:
        return f"cannot be looked at: {error.strerror}"
    return "is no regular file"
