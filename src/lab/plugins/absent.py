"""What to do about a part that no installed plugin offers: which plugin brought it before, and how to have it again.

Nobody's index is asked and no name is guessed. What is known is what this project's own runs recorded, and what an
experiment declares in `environment.packages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.plugins.origin import is_installed
from lab.runs import records
from lab.runs.directory import every
from lab.runs.shapes import fitting

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.experiment import Experiment
    from lab.plugins.discovery import Plugin
    from lab.runs.records import Record

RUNS_READ = 500
"""So many of the newest runs are looked through: a wrong name must not take seconds to be told."""


def advice(kind: str, name: str, installed: Sequence[Plugin], runs: Path | None) -> str:
    """Which plugin brought the part to an earlier run, and what brings it back; empty when no run tells."""
    found = _brought(kind, name, runs) if runs else None
    if found is None:
        return ""
    run, before = found
    said = f"Run {run} had it from {before.get('distribution')} {before.get('version')}"
    here = next((plugin for plugin in installed if plugin.distribution == before.get("distribution")), None)
    if here is not None and here.state != "loaded":
        return f"{said}, which is {here.state}: {here.error}."
    now = f"{said}; {here.owner}, which is installed, has none of this name." if here else f"{said}."
    line = before.get("requirement")
    if line:
        return f"{now} {install(str(line))}"
    folder = before.get("installed_from") or before.get("distribution")
    return f"{now} It came from the folder or file '{folder}' of a machine. Run: pip install PATH/TO/{folder}"


def undeclared(experiment: Experiment) -> str:
    """What `environment.packages` declares and is not installed here: one of these may bring a missing part."""
    from packaging.requirements import Requirement

    lines = [line for line in experiment.environment.packages if not is_installed(Requirement(line).name)]
    named = " and ".join(lines)
    return f"environment.packages names {named}, not installed here. {install(*lines)}" if lines else ""


def install(*lines: str) -> str:
    """The command that installs these requirements."""
    return f"Run: pip install {' '.join(map(repr, lines))}"


def _brought(kind: str, name: str, runs: Path) -> tuple[str, Record] | None:
    """The newest run that used the part of a stranger's plugin, and what its provenance says of that plugin."""
    for run in reversed(every(runs)[-RUNS_READ:]):
        try:
            record, _ = fitting("provenance", records.read_json(run.provenance) or {})
        except LabError:  # a record that cannot be read tells nothing; the next older one may
            continue
        for plugin in record.get("plugins") or ():
            if plugin.get("third_party") and name in (plugin.get("parts") or {}).get(kind, ()):
                return run.id, plugin
    return None
