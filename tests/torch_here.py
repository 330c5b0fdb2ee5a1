"""Which parts this machine's torch has: a part that needs a newer one is left out of what all parts are put through."""

from __future__ import annotations

from importlib.metadata import version

from packaging.requirements import Requirement

from lab.plugins import Plugins, needs


def parts_here(kind: str) -> list[str]:
    """The names of the installed parts of a kind, but for those whose `needs` say another version of torch."""
    plugins = Plugins()
    return [name for name in plugins.parts(kind) if _fits(needs.requirements(*plugins.find(kind, name)))]


def _fits(lines: tuple[str, ...]) -> bool:
    wanted = [one.specifier for one in map(Requirement, lines) if one.name == "torch"]
    return all(specifier.contains(version("torch"), prereleases=True) for specifier in wanted)
