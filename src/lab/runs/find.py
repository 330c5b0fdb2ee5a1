"""From what a person types to a run: an id, its start, `latest`, an experiment, a tag, a machine's id, or a path."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lab.errors import LabError, UsageError, did_you_mean
from lab.runs import records, tags
from lab.runs.directory import CONFIG, NAME, RunDirectory, every
from lab.runs.status import status

if TYPE_CHECKING:
    from lab.settings import Settings

Choice = Callable[[Sequence[RunDirectory]], RunDirectory]
logger = logging.getLogger(__name__)
LATEST = "latest"
_SHOWN = 5


def newest(runs: Sequence[RunDirectory]) -> RunDirectory:
    """Which of an experiment's runs, oldest first, its name means."""
    return runs[-1]


def as_written(runs: Sequence[RunDirectory]) -> RunDirectory:
    """Which of an experiment's runs its name means where results are looked at.

    The newest that completed as the file says, without --set; else the newest that completed; else the newest.
    """
    chosen, latest = _best(runs), runs[-1]
    name, word = NAME.sub(r"\g<experiment>", chosen.id), status(latest).word
    if chosen is not latest:
        why = "has --set" if word == "completed" else f"is {word}"
        logger.warning("%s: took %s; its newest run, %s, %s.", name, chosen.id, latest.id, why)
    elif word == "completed" and _overridden(chosen):
        logger.warning("%s: took %s, which has --set: no run completed as the file says.", name, chosen.id)
    return chosen


def _best(runs: Sequence[RunDirectory]) -> RunDirectory:
    """Reads no more of them than it takes: there may be thousands."""
    fallback = None
    for run in reversed(runs):
        if status(run).word == "completed":
            if not _overridden(run):
                return run
            fallback = fallback or run
    return fallback or runs[-1]


def find(reference: str, settings: Settings, choose: Choice = newest) -> RunDirectory:
    """The one run that `reference` names; `choose` takes one where it names an experiment.

    Raises `UsageError` when there is none or more than one.
    """
    if not reference or "\0" in reference:
        raise UsageError(
            "A run is named by its id, its start, 'latest', its experiment, a tag, its machine's id, or its path."
        )
    if os.sep in reference or reference in (os.curdir, os.pardir):
        return _at(Path(os.path.expanduser(reference)).absolute())
    runs = every(settings.runs_folder)
    if not runs:
        raise _unknown(reference, runs, settings)
    if reference == LATEST:
        return runs[-1]
    named = _named(reference, runs, choose)
    if len(named) == 1:
        return named[0]
    if named:
        raise _ambiguous(reference, named)
    if os.path.isfile(os.path.join(reference, CONFIG)):  # which no strange name can make fail
        return _at(Path(reference).absolute())
    raise _unknown(reference, runs, settings)


def _unknown(reference: str, runs: Sequence[RunDirectory], settings: Settings) -> UsageError:
    """Nothing that ran has this name; an experiment that has it may never have run."""
    from lab.experiment.finding import names

    experiment = reference in names(settings.experiments_folder)
    make_one = f"Make one with: lab run {reference if experiment else 'NAME'}"
    if not runs:
        return UsageError(f"There is no run in {settings.runs_folder}.", make_one)
    if experiment:
        return UsageError(f"No run of experiment '{reference}' is here.", make_one)
    return UsageError(f"No run is called '{reference}'.", did_you_mean(reference, _recent(runs)))


def _named(reference: str, runs: Sequence[RunDirectory], choose: Choice) -> list[RunDirectory]:
    """The runs that a name can mean, by the first rule that finds any."""
    return (
        [run for run in runs if run.id == reference]
        or _of_experiment(reference, runs, choose)
        or [run for run in runs if run.id.startswith(reference)]
        or [run for run in runs if reference in tags.read(run).tags]
        or [run for run in runs if _is_on(run, reference)]
    )


def _of_experiment(experiment: str, runs: Sequence[RunDirectory], choose: Choice) -> list[RunDirectory]:
    """One run of the experiment of exactly this name, whatever else begins with it."""
    found = [run for run in runs if (parts := NAME.match(run.id)) and parts["experiment"] == experiment]
    return [choose(found)] if found else []


def _overridden(run: RunDirectory) -> bool:
    try:
        return bool((records.read_json(run.config) or {}).get("overrides"))
    except LabError:
        return True  # what it was told cannot be known


def _at(path: Path) -> RunDirectory:
    """The run at a path, which may also name one of its files."""
    try:
        inside = path.parent if path.is_file() else path
        return RunDirectory.open(inside.resolve())
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def _is_on(run: RunDirectory, machine: str) -> bool:
    try:
        receipt = records.read_json(run.receipt) or {}
    except LabError:
        return False
    return receipt.get("handle") == machine


def _ambiguous(reference: str, named: Sequence[RunDirectory]) -> UsageError:
    listed = "\n".join(f"  {run.id}" for run in list(reversed(named))[:_SHOWN])
    more = f"\n  and {len(named) - _SHOWN} older" if len(named) > _SHOWN else ""
    return UsageError(
        f"'{reference}' names {len(named)} runs:\n{listed}{more}", f"The latest of them is {named[-1].id}."
    )


def _recent(runs: Sequence[RunDirectory]) -> list[str]:
    """What to suggest from: with many runs, only the newest."""
    return [run.id for run in runs[-_SHOWN * 4 :]] + [LATEST]
