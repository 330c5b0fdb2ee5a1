"""What really differs between two runs, against what their experiments declare to change."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lab.compare import plugin_files
from lab.compare.facts import flattened
from lab.compare.kinds import KINDS, kind_of
from lab.experiment import COMPUTING_KEYS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from lab.compare.facts import RunFacts

UNRUN_ROOMS = ("cli", "report", "compare", "launch", "rental", "series", "conformance")
"""Code that no worker executes: a difference there cannot change what a run computes."""
_UNRUN_FILES = (".md", ".toml", ".txt")
_PLUGIN = re.compile(r"plugins/lab_(?P<name>\w+)/")


@dataclass(frozen=True)
class Difference:
    """One thing that is not the same in both runs; None means absent."""

    kind: str
    key: str
    a: object
    b: object
    declared: bool = False


def between(a: RunFacts, b: RunFacts) -> tuple[Difference, ...]:
    """Everything that differs: what is declared first, then the rest in the fixed order of kinds."""
    asked = in_experiments(a, b)
    declared = {one.key for one in asked if one.declared}
    brought = plugin_files.brought(a, b, declared)
    rest = [*_in_data(a, b), *_in_code(a, b), *_in_surroundings(a, b)]
    found = [*asked, *(replace(one, declared=one.key in brought or _follows(one, declared)) for one in rest)]
    return tuple(sorted(found, key=lambda one: (not one.declared, KINDS.index(one.kind))))


def in_experiments(a: RunFacts, b: RunFacts) -> list[Difference]:
    """Keys of the experiments that decide the computation and differ.

    A difference is declared when both experiments are the same after each is rolled back by what it declares.
    """
    before_a, before_b = _rolled_back(a), _rolled_back(b)
    keys = [key for key in dict.fromkeys([*a.flat, *b.flat]) if key.split(".")[0] in COMPUTING_KEYS]
    differing = [key for key in keys if a.flat.get(key) != b.flat.get(key)]
    declared = {key for key in differing if before_a.get(key) == before_b.get(key)}
    return [
        Difference(kind_of(key), key, a.flat.get(key), b.flat.get(key), key in declared or _brought(key, declared))
        for key in differing
    ]


def _follows(one: Difference, declared: Collection[str]) -> bool:
    """Whether a part that was chosen anew is why: its kernel."""
    return one.key.startswith("kernels.") and f"{one.key.removeprefix('kernels.')}.name" in declared


def _brought(key: str, declared: Collection[str]) -> bool:
    """Whether a part that was chosen anew brings this option with it: its defaults are nobody's undeclared change."""
    return f"{key.rpartition('.')[0]}.name" in declared


def differing_files(a: RunFacts, b: RunFacts) -> dict[str, tuple[str | None, str | None]]:
    """Files that a worker may run and whose content is not the same, with both hashes.

    A plugin that neither run used is no difference; one that was installed elsewhere is compared as a whole.
    """
    used = plugin_files.used(a).keys() | plugin_files.used(b).keys()
    files_a, files_b = _files(a, used), _files(b, used)
    paths = sorted({*files_a, *files_b})
    return {path: (files_a.get(path), files_b.get(path)) for path in paths if files_a.get(path) != files_b.get(path)}


def packages(facts: RunFacts) -> dict[str, object]:
    """Versions of what was really imported, with Python, driver, CUDA and the variables that steer them."""
    found = flattened(facts.environment.get("packages") or {})
    for key in ("python", "driver", "cuda", "image"):
        if facts.environment.get(key) is not None:
            found[key] = facts.environment[key]
    return found | variables(facts)


def variables(facts: RunFacts) -> dict[str, object]:
    """Those that steer what was imported, without those that name a folder of one machine."""
    known = facts.environment.get("variables") or {}
    return {key: value for key, value in known.items() if "/" not in str(value)}


def clocks(facts: RunFacts) -> dict[str, object]:
    """What the environment says of the GPU's clocks and power limit."""
    return {
        key: value
        for key, value in flattened({"device": facts.device, "notes": facts.environment.get("notes") or {}}).items()
        if any(word in key for word in ("clock", "power", "throttle"))
    }


def _rolled_back(facts: RunFacts) -> dict[str, object]:
    flat = dict(facts.flat)
    for declaration in reversed(facts.config.get("declarations") or []):
        for change in declaration.get("changes", ()):
            flat[change["key"]] = change.get("before")
    return {key: value for key, value in flat.items() if value is not None}


def _in_data(a: RunFacts, b: RunFacts) -> Iterable[Difference]:
    weights = a.fingerprint("weights_initial"), b.fingerprint("weights_initial")
    if weights[0] != weights[1]:
        yield Difference("weights", "initial weights", *weights)
    yield from _unequal("data", _data(a), _data(b))


def _data(facts: RunFacts) -> dict[str, object]:
    tokenizer = facts.manifest.get("tokenizer") or {}
    known = {"token cache": facts.manifest.get("identity"), "tokenizer": tokenizer.get("sha256")}
    return {key: value for key, value in known.items() if value is not None}


def _in_code(a: RunFacts, b: RunFacts) -> Iterable[Difference]:
    for path, (one, other) in differing_files(a, b).items():
        yield Difference("code", path, plugin_files.named(path, one, a), plugin_files.named(path, other, b))


def _in_surroundings(a: RunFacts, b: RunFacts) -> Iterable[Difference]:
    yield from _unequal("precision", _one("precision", a), _one("precision", b))
    yield from _unequal("code", flattened(_kernels(a), "kernels."), flattened(_kernels(b), "kernels."))
    yield from _unequal("libraries", packages(a), packages(b))
    yield from _unequal("hardware", _hardware(a), _hardware(b))
    yield from _unequal("clocks", clocks(a), clocks(b))


def _kernels(facts: RunFacts) -> dict[str, object]:
    return facts.environment.get("kernels") or {}


def _one(key: str, facts: RunFacts) -> dict[str, object]:
    return {key: facts.environment[key]} if key in facts.environment else {}


def _hardware(facts: RunFacts) -> dict[str, object]:
    known = {f"device.{key}": facts.device.get(key) for key in ("type", "name", "uuid", "memory_bytes")}
    known |= {key: facts.environment.get(key) for key in ("cpu", "threads")}
    return {key: value for key, value in known.items() if value is not None}


def _unequal(kind: str, a: dict[str, object], b: dict[str, object]) -> Iterable[Difference]:
    for key in dict.fromkeys([*a, *b]):
        if a.get(key) != b.get(key):
            yield Difference(kind, key, a.get(key), b.get(key))


def _files(facts: RunFacts, used: Collection[str]) -> dict[str, str]:
    files = facts.provenance.get("files") or {}
    own = {path: digest for path, digest in files.items() if _may_run(path, used)}
    return own | plugin_files.beside_lab(facts)


def _may_run(path: str, used: Collection[str]) -> bool:
    if path.endswith(_UNRUN_FILES) or any(f"lab/{room}/" in path for room in UNRUN_ROOMS):
        return False
    plugin = _PLUGIN.match(path)
    return plugin is None or plugin["name"].replace("_", "-") in used
