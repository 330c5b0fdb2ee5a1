"""What lab's own code needs on a machine that gets it as files: its requirements and its plugins' entry points."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from typing import TYPE_CHECKING

from lab.runs.provenance import DISTRIBUTION

if TYPE_CHECKING:
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


def bundled() -> list[dict[str, str]]:
    """Lab's distribution as the machine is to see it, so that its plugins are found there."""
    lab = _installed()
    if lab is None:
        return []
    return [{"name": DISTRIBUTION, "version": lab.version, "entry_points": lab.read_text("entry_points.txt") or ""}]


def _installed() -> Distribution | None:
    try:
        return distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
