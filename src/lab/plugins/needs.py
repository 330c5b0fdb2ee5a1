"""Which libraries of a part are missing on this machine; nothing is imported to find out."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import TYPE_CHECKING

from lab.plugins.discovery import LAB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.hookspecs import Part
    from lab.plugins.discovery import Plugin


def missing(plugin: Plugin, part: Part) -> tuple[str, ...]:
    """The distributions that the part's extra would bring and that are not installed here."""
    if part.extra is None:
        return ()
    return tuple(sorted({name for name in _wanted(owner(plugin, part), part.extra, set()) if not _installed(name)}))


def command(plugin: Plugin, part: Part) -> str:
    """The command that brings the part's libraries."""
    return f"pip install '{owner(plugin, part)}[{part.extra}]'"


def owner(plugin: Plugin, part: Part) -> str:
    """Whose extra it is: the plugin's own distribution when that has one of this name, else lab."""
    try:
        extras = distribution(plugin.distribution).metadata.get_all("Provides-Extra") or []
    except PackageNotFoundError:
        extras = []
    return plugin.distribution if part.extra in extras else LAB


def _wanted(name: str, extra: str, seen: set[str]) -> Iterator[str]:
    """What `name[extra]` requires beside what `name` requires; an extra may name other extras of its own."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    if extra in seen:
        return
    seen.add(extra)
    for line in requires(name) or ():
        requirement = Requirement(line)
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": ""}) or not marker.evaluate({"extra": extra}):
            continue
        if canonicalize_name(requirement.name) != name:
            yield requirement.name
        for inner in requirement.extras if canonicalize_name(requirement.name) == name else ():
            yield from _wanted(name, inner, seen)


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True
