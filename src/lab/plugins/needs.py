"""Which libraries a part needs, here or on another machine; nothing is imported to find out."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution, requires
from typing import TYPE_CHECKING

from lab.plugins.discovery import LAB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.requirements import Requirement

    from lab.hookspecs import Part
    from lab.plugins.discovery import Plugin


def missing(plugin: Plugin, part: Part) -> tuple[str, ...]:
    """What the part's extra would bring: the names of what is not installed here, and what is too old or too new."""
    return tuple(sorted({lacking for one in _of(plugin, part) if (lacking := _lacking(one))}))


def requirements(plugin: Plugin, part: Part) -> tuple[str, ...]:
    """The requirement lines that the part's extra stands for, for a machine that lab is not installed on."""
    return tuple(str(one) for one in _of(plugin, part))


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


def _lacking(wanted: Requirement) -> str | None:
    """The requirement, by its name alone where nothing of that name is installed; None when it is met."""
    try:
        installed = distribution(wanted.name).version
    except PackageNotFoundError:
        return wanted.name
    return None if wanted.specifier.contains(installed, prereleases=True) else f"{wanted.name}{wanted.specifier}"


def _of(plugin: Plugin, part: Part) -> list[Requirement]:
    return [] if part.extra is None else list(_wanted(owner(plugin, part), part.extra, set()))


def _wanted(name: str, extra: str, seen: set[str]) -> Iterator[Requirement]:
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
            requirement.marker = None
            yield requirement
        for inner in requirement.extras if canonicalize_name(requirement.name) == name else ():
            yield from _wanted(name, inner, seen)
