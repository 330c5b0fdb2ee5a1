"""The files that a plugin consists of, as one hash: the same for a wheel and for an editable install."""

from __future__ import annotations

import hashlib
import importlib.util
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.plugins.discovery import Plugin


def files_sha256(plugin: Plugin) -> str | None:
    """SHA-256 (hex) over the names and contents of the plugin's own files, or None when they cannot be found.

    Its own files are those below the module that its entry point names, and below its parts' modules where the same
    distribution installed them.
    """
    digest = hashlib.sha256()
    found = False
    for name, path in sorted(_files(plugin)):
        found = True
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest() if found else None


def places(plugin: Plugin) -> list[Path]:
    """The folders of the plugin's packages and the files of its single modules; nothing is imported."""
    targets = [text for parts in plugin.parts.values() for part in parts for text in (part.target, part.options)]
    others = {_root(text) for text in targets if text} & _tops(plugin.distribution)
    return [place for root in {_root(plugin.module), *others} for place in _places(root)]


def _files(plugin: Plugin) -> Iterator[tuple[str, Path]]:
    for place in places(plugin):
        for path in [place] if place.is_file() else place.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(place.parent).as_posix(), path


def _tops(name: str) -> set[str]:
    """The import names that a distribution installed; an editable one does not say."""
    try:
        files = distribution(name).files or ()
    except PackageNotFoundError:
        return set()
    return {path.parts[0].removesuffix(".py") for path in files}


def _root(target: str) -> str:
    return target.partition(":")[0].partition(".")[0]


def _places(module: str) -> list[Path]:
    """The folder of a package, or the file of a module; nothing is imported."""
    try:
        spec = importlib.util.find_spec(_root(module))
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    if spec.submodule_search_locations:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin and spec.has_location else []
