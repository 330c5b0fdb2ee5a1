"""Whether a run had its machine to itself while its steps were measured, by the worker's own samples."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.compare.facts import RunFacts

HEAVY = 0.25
"""From this share of all cores on, other processes are named beside the speed: on two cores, half of one."""


def others(run: RunFacts) -> float | None:
    """The mean share of all cores that other processes took during the measured steps; None without a sample."""
    values = run.steps.measured_samples("others_percent")
    return fmean(values) / 100 if values else None


def note(runs: Mapping[str, RunFacts]) -> str:
    """Of the runs, by what each is called, those whose machine was busy; empty when none was."""
    found = {name: share for name, run in runs.items() if (share := others(run)) is not None and share >= HEAVY}
    if not found:
        return ""
    each = " and ".join(f"{100 * share:.0f} % of all in {name}" for name, share in found.items())
    return f"Other processes took cores while steps were measured, {each}: it may have cost speed."
