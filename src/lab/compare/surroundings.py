"""Checks on what surrounds a computation: precision, hardware, code, libraries and clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.compare import differences, formats, plugin_files
from lab.compare.verdicts import ALL_LIMITS, ALL_NO, LIMITS, NO, Check, among

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.compare.facts import RunFacts

SAME_MODEL_SPREAD = 0.22
"""Largest speed difference met between two GPUs of one model (arXiv 2208.11035); 8 % on average."""
TO_WATCH = {"speed": LIMITS, "memory": LIMITS}
"""What watches computes nothing, so the loss is the same; it may take time and memory."""
BRINGS_LIBRARIES = ("environment", "loop", "attention", "loss", *plugin_files.WATCHERS)


def precision(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    """The precision really computed in."""
    values = a.environment.get("precision"), b.environment.get("precision")
    return Check.equal("precision", values, ALL_NO, brought=among(declared, ("train.precision",)))


def hardware(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Iterator[Check]:
    """GPU model and UUID; on a CPU, which has no UUID, its model and threads."""
    brought = among(declared, ("environment.gpu",))
    allows = {"loss": LIMITS, "speed": NO, "memory": LIMITS}
    if a.device.get("type") == b.device.get("type") == "cpu":
        yield Check.equal("CPU model", (a.environment.get("cpu"), b.environment.get("cpu")), allows, brought=brought)
        yield Check.equal("CPU threads", (a.environment.get("threads"), b.environment.get("threads")), {"speed": NO})
        return
    names = a.device.get("name"), b.device.get("name")
    yield Check.equal("GPU model", names, allows, brought=brought)
    if names[0] == names[1]:
        note = f"two GPUs of one model: up to {SAME_MODEL_SPREAD:.0%} apart without any change"
        yield Check.equal("GPU UUID", (a.device.get("uuid"), b.device.get("uuid")), {"speed": LIMITS}, note)


def code(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    """The files that a worker may run; of a plugin that a declared part brought with it, that it did."""
    values = a.provenance.get("code_sha256"), b.provenance.get("code_sha256")
    if not (a.provenance.get("files") and b.provenance.get("files")):
        return Check.equal("code", values, ALL_LIMITS)
    paths = list(differences.differing_files(a, b))
    if not paths:
        note = "" if values[0] == values[1] else "differs only in files that no worker runs"
        return Check("code", True, *values, note)
    more = f" and {len(paths) - 3} more" if len(paths) > 3 else ""
    brought = "; comes with what is declared" if plugin_files.brought(a, b, declared).issuperset(paths) else ""
    allows = TO_WATCH if plugin_files.that_watch(a, b).issuperset(paths) else ALL_LIMITS
    return Check("code", False, *values, f"{', '.join(paths[:3])}{more}{brought}", (), allows)


def libraries(a: RunFacts, b: RunFacts, declared: tuple[str, ...]) -> Check:
    """The versions really imported."""
    one, other = differences.packages(a), differences.packages(b)
    names = [key for key in dict.fromkeys([*one, *other]) if one.get(key) != other.get(key)]
    asked = (*declared, *sorted(plugin_files.watching(a) | plugin_files.watching(b)))
    if one and other and not names:
        versions = formats.counted(len(one), "version")
        return Check("libraries", True, versions, versions)
    set_in_either = {*differences.variables(a), *differences.variables(b)}
    absent = {key: "not set" if key in set_in_either else "not imported" for key in names}
    sides = [
        ", ".join(f"{key} {side.get(key, absent[key])}" for key in names) if side else None for side in (one, other)
    ]
    to_watch = plugin_files.imported_to_watch(a, b) | plugin_files.imported_to_watch(b, a)
    allows = TO_WATCH if names and to_watch.issuperset(names) else ALL_LIMITS
    return Check.equal("libraries", sides, allows, brought=among(asked, BRINGS_LIBRARIES))


def clocks(a: RunFacts, b: RunFacts) -> Iterator[Check]:
    """GPU clocks and power limit, where an environment records them."""
    one, other = differences.clocks(a), differences.clocks(b)
    if one or other:
        yield Check.equal("clocks", (one or None, other or None), {"speed": LIMITS})
