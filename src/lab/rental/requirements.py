"""What lab's own code needs on a machine that gets it as files: its requirements and its plugins' entry points."""

from __future__ import annotations

import base64
import re
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from lab.jobs import allowed
from lab.jobs.bundle import Skipped
from lab.plugins.origin import requirement
from lab.runs.provenance import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from importlib.metadata import Distribution

    from lab.jobs import Job

TRAINING_EXTRAS = ("train", "embedded", "gpu")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


def needed(job: Job, plugins: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the install stage is to provide for a job and for the plugins of its run's provenance."""
    lines, carried = of_plugins(plugins)
    return {
        "packages": list(job.needs.packages),
        "requirements": [*of_lab(), *lines],
        "torch_index": job.needs.torch_index,
        "distributions": [*bundled(), *carried],
    }


def of_lab(extras: tuple[str, ...] = TRAINING_EXTRAS) -> list[str]:
    """The requirement lines of lab and of these extras, lab itself left out."""
    lab = _installed()
    if lab is None:
        return []
    lines = []
    for line in lab.requires or ():
        requirement, _, marker = line.partition(";")
        asked = _EXTRA.search(marker)
        if requirement.startswith(DISTRIBUTION) or (asked and asked.group(1) not in extras):
            continue
        rest = _EXTRA.sub("", marker).strip()
        lines.append(f"{requirement.strip()}; {rest}" if rest and not asked else requirement.strip())
    return list(dict.fromkeys(lines))


def bundled() -> list[dict[str, Any]]:
    """Lab's distribution as the machine is to see it, so that its plugins are found there."""
    lab = _installed()
    if lab is None:
        return []
    return [_described(lab)]


def of_plugins(records: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[dict[str, Any]]]:
    """What strangers' plugins need there: lines for the index, or their files when they were installed from here.

    `records` are those of a run's provenance. One that brought the backend alone has done its work here.
    """
    lines: list[str] = []
    for found in _wanted(records):
        line = requirement(found.metadata["Name"])
        lines += [line] if line is not None else _requires(found)
    return lines, [{**_described(found), **_files(found)} for found in _carried(records)]


def _wanted(records: Sequence[Mapping[str, Any]]) -> Iterator[Distribution]:
    wanted = [one for one in records if one.get("third_party") and set(one.get("parts") or "?") != {"backend"}]
    for name in dict.fromkeys(str(one["distribution"]) for one in wanted):
        with suppress(PackageNotFoundError):
            yield distribution(name)


def _carried(records: Sequence[Mapping[str, Any]]) -> Iterator[Distribution]:
    """Those that no index has: they were installed from a folder or a file of this machine."""
    return (found for found in _wanted(records) if requirement(found.metadata["Name"]) is None)


def _requires(found: Distribution) -> list[str]:
    return [line for line in found.requires or () if "extra ==" not in line and not _is_lab(line)]


def _is_lab(line: str) -> bool:
    return canonicalize_name(Requirement(line).name) == DISTRIBUTION


def _described(found: Distribution) -> dict[str, Any]:
    entry_points = found.read_text("entry_points.txt") or ""
    return {"name": found.metadata["Name"], "version": found.version, "entry_points": entry_points}


def carried_places(records: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Path], list[Skipped]]:
    """The files of strangers' plugins that are carried along, each by its path on this machine, and what stays."""
    found: dict[str, Path] = {}
    skipped: list[Skipped] = []
    for one in _carried(records):
        files, left_out = _plugin_files(one)
        found.update({str(place): place for place in files.values()})
        skipped += left_out
    return found, skipped


def _files(found: Distribution) -> dict[str, dict[str, str]]:
    """The files of the plugin's modules by their path on the module search path: as text, or in base64 where not."""
    files: dict[str, str] = {}
    binary: dict[str, str] = {}
    for name, place in _plugin_files(found)[0].items():
        content = place.read_bytes()
        try:
            files[name] = content.decode("utf-8")
        except UnicodeDecodeError:
            binary[name] = base64.b64encode(content).decode("ascii")
    return {"files": files, "binary": binary}


def _plugin_files(found: Distribution) -> tuple[dict[str, Path], list[Skipped]]:
    """What travels of a plugin by its path on the module search path, by the rules of the bundle, and what does not."""
    files: dict[str, Path] = {}
    skipped: list[Skipped] = []
    for place in (place for module in sorted(_modules(found)) for place in _places(module)):
        if place.is_file():
            files[place.name] = place
            continue
        for path in sorted(place.rglob("*")):
            inner = path.relative_to(place).as_posix()
            reason = None if path.is_dir() and not path.is_symlink() else allowed.reason_to_skip(place, inner)
            if reason:
                skipped.append(Skipped(str(path), reason))
            elif reason is None and path.is_file():
                files[f"{place.name}/{inner}"] = path
    return files, skipped


def _modules(found: Distribution) -> set[str]:
    """What its entry points name, and whatever else it installed; an editable installation lists only the former."""
    named = {entry.module.partition(".")[0] for entry in found.entry_points if entry.group.startswith("lab")}
    listed = {path.parts[0].removesuffix(".py") for path in found.files or () if path.suffix == ".py"}
    return named | {name for name in listed if name.isidentifier()}


def _places(module: str) -> Sequence[Path]:
    """The folder of a package, or the file of a module; nothing is imported."""
    spec = find_spec(module)
    if spec is None:
        return ()
    if spec.submodule_search_locations:
        return [Path(folder) for folder in spec.submodule_search_locations]
    return [Path(spec.origin)] if spec.origin and spec.has_location else ()


def _installed() -> Distribution | None:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
