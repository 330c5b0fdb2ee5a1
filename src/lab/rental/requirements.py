"""What lab's own code needs on a machine that gets it as files: its requirements and its plugins' entry points."""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.runs.provenance import DISTRIBUTION

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from importlib.metadata import Distribution

TRAINING_EXTRAS = ("train", "embedded")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


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
    """What strangers' plugins need there: lines for the index, or their files when a folder is their source.

    `records` are those of a run's provenance. One that brought the backend alone has done its work here.
    """
    lines: list[str] = []
    carried: list[dict[str, Any]] = []
    wanted = [one for one in records if one.get("third_party") and set(one.get("parts") or "?") != {"backend"}]
    for name in dict.fromkeys(str(one["distribution"]) for one in wanted):
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        source = json.loads(found.read_text("direct_url.json") or "{}")
        if "dir_info" not in source:
            lines.append(f"{name} @ {source['url']}" if source.get("url") else f"{name}=={found.version}")
            continue
        carried.append({**_described(found), "files": _files(found)})
        lines += [line for line in found.requires or () if "extra ==" not in line and not line.startswith(DISTRIBUTION)]
    return lines, carried


def _described(found: Distribution) -> dict[str, Any]:
    entry_points = found.read_text("entry_points.txt") or ""
    return {"name": found.metadata["Name"], "version": found.version, "entry_points": entry_points}


def _files(found: Distribution) -> dict[str, str]:
    """The text files of every module that the plugin's entry points name, by their path on the module search path."""
    files: dict[str, str] = {}
    for module in {entry.module.partition(".")[0] for entry in found.entry_points if entry.group.startswith("lab")}:
        spec = find_spec(module)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(Path(folder).rglob("*.py")):
                files[f"{module}/{path.relative_to(folder).as_posix()}"] = path.read_text(encoding="utf-8")
        if spec and spec.origin and not spec.submodule_search_locations:
            files[f"{module}.py"] = Path(spec.origin).read_text(encoding="utf-8")
    return files


def _installed() -> Distribution | None:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
