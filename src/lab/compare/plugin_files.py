"""The plugins that a run used: those that were installed beside lab are known by their hash alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from lab.compare.facts import RunFacts
    from lab.runs.records import Record

PLUGIN = "plugin "
"""What stands for the files of such a plugin begins with this; its name follows."""

WATCHERS_OF = {"observer": "observers", "tracker": "trackers"}
WATCHERS = tuple(WATCHERS_OF.values())


def used(facts: RunFacts) -> dict[str, Record]:
    """What provenance says of each plugin, by its name."""
    found = facts.provenance.get("plugins") or ()
    return {str(one.get("name")): one for one in found if isinstance(one, dict)}


def beside_lab(facts: RunFacts) -> dict[str, str]:
    """The hash of each plugin whose files are in no bundle, where the run used more of it than its backend."""
    files = facts.provenance.get("files")
    return {
        f"{PLUGIN}{name}": str(one.get("files_sha256"))
        for name, one in used(facts).items()
        if (one.get("third_party") or not files) and set(one.get("parts") or {"unknown"}) != {"backend"}
    }


def watching(facts: RunFacts) -> set[str]:
    """Keys of the observers and trackers that the run declares: they watch, so no computing key names them."""
    declared = (change["key"] for one in facts.config.get("declarations") or [] for change in one.get("changes", ()))
    return {".".join(key.split(".")[:2]) for key in declared if key.split(".")[0] in WATCHERS}


def brought(a: RunFacts, b: RunFacts, declared: Collection[str]) -> set[str]:
    """What stands for the plugins that only one run used, and that a part which it declares brought with it."""
    anew = any(key.endswith(".name") for key in declared)
    found = set()
    for one, other in ((a, b), (b, a)):
        watchers = watching(one)
        for name in used(one).keys() - used(other).keys():
            parts = used(one)[name].get("parts") or {}
            theirs = {
                f"{WATCHERS_OF[kind]}.{part}" for kind, named in parts.items() if kind in WATCHERS_OF for part in named
            }
            if anew or (theirs and theirs <= watchers and parts.keys() <= WATCHERS_OF.keys()):
                found.add(f"{PLUGIN}{name}")
        if watchers:
            found |= imported_to_watch(one, other)
    return found


def that_watch(a: RunFacts, b: RunFacts) -> set[str]:
    """What stands for the plugins of which both runs used observers and trackers alone: they compute nothing."""
    plugins = [(name, plugin.get("parts") or {}) for facts in (a, b) for name, plugin in used(facts).items()]
    computing = {name for name, parts in plugins if not parts or not parts.keys() <= WATCHERS_OF.keys()}
    return {f"{PLUGIN}{name}" for name, _ in plugins if name not in computing}


def imported_to_watch(facts: RunFacts, other: RunFacts) -> set[str]:
    """The packages that only this run imported, and only since an observer asked for them."""
    theirs = set(facts.environment.get("packages_of_observers") or ())
    return theirs - (other.environment.get("packages") or {}).keys()


def named(path: str, digest: str | None, facts: RunFacts) -> str | None:
    """A file by its hash; a plugin that was installed beside lab by its distribution and version too."""
    if digest is None or not path.startswith(PLUGIN):
        return digest
    plugin = used(facts)[path.removeprefix(PLUGIN)]
    owner = " ".join(str(plugin[key]) for key in ("distribution", "version") if plugin.get(key))
    return f"{owner}, files {digest}" if owner else digest
