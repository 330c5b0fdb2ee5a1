"""Which files may travel in a bundle: an allowlist, git's opinion where it has one, and no link whatsoever."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from lab.runs import repository
from lab.runs.provenance import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

CODE_NAMES = ("src", "plugins", "scripts")
TOP_NAMES = ("pyproject.toml", "README.md", "LICENSE", "constraints.txt", "requirements.txt")
ALLOWED = (*CODE_NAMES, *TOP_NAMES)
"""What may travel from a project folder, beside the experiment's own files; everything else stays at home."""
_NEVER = ("__pycache__", "node_modules")


def checkout_of(project: Path) -> Path | None:
    """The checkout whose code of lab runs: the project itself, or where lab was installed from; None for a wheel."""
    if _is_checkout(project):
        return project
    source = _package_folder().parent
    return source.parent if source.name == "src" and _is_checkout(source.parent) else None


def origins(project: Path, experiments: Sequence[str]) -> Iterator[tuple[Path, str, Sequence[str]]]:
    """Yield each folder to read from, what its files' paths start with, and the allowed names in it."""
    yield project, "", (*ALLOWED, *experiments)
    checkout = checkout_of(project)
    if checkout == project:
        return
    if checkout is not None:
        yield checkout, "", ("src", "plugins", *TOP_NAMES)
        return
    yield _package_folder(), "src/lab/", (".",)
    for name in _plugin_modules():
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            yield Path(place), f"plugins/{name}/", (".",)


def _is_checkout(folder: Path) -> bool:
    return (folder / "src" / "lab" / "__init__.py").is_file() and (folder / "pyproject.toml").is_file()


def _package_folder() -> Path:
    return Path(__file__).resolve().parent.parent


def _plugin_modules() -> list[str]:
    """The top-level modules of the plugins that come with lab."""
    entries = importlib.metadata.distribution(DISTRIBUTION).entry_points
    return sorted({entry.module.partition(".")[0] for entry in entries if entry.group == "lab"})


def listed(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the files that git tracks or would track; all of them where git has nothing to say."""
    known = repository.listed(folder, names) or _walked(folder, names)
    for name in known:
        inner = folder / name
        if inner.is_dir() and not inner.is_symlink():  # a submodule, or a repository inside this one
            yield from (f"{name.rstrip('/')}/{deeper}" for deeper in listed(inner, (".",)))
        else:
            yield name


def _walked(folder: Path, names: Sequence[str]) -> Iterable[str]:
    for name in names:
        top = folder / name
        if top.is_symlink() or not top.is_dir():
            if os.path.lexists(top):
                yield name
            continue
        for place, folders, files in os.walk(top):
            links = [inner for inner in folders if os.path.islink(os.path.join(place, inner))]
            folders[:] = sorted(set(folders) - set(links) - set(_NEVER))
            for file in sorted((*files, *links)):
                yield os.path.relpath(os.path.join(place, file), folder)


def reason_to_skip(folder: Path, name: str) -> str | None:
    """Why the file does not travel: None when it does, and an empty reason when nobody needs to hear of it."""
    parts = name.split("/")
    if any(part in _NEVER for part in parts) or name.endswith((".pyc", ".pyo")):
        return ""
    if any(part.startswith(".") for part in parts):
        return "hidden"
    if any((folder / Path(*parts[:depth])).is_symlink() for depth in range(1, len(parts) + 1)):
        return "a link: links are never followed"
    try:
        mode = (folder / name).lstat().st_mode
    except OSError:
        return ""  # git still tracks it, but it was deleted
    return None if stat.S_ISREG(mode) else "not a regular file"
