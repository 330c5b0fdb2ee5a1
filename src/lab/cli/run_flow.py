"""What `lab run` and `lab resume` do alike once a run is ready: follow it, report it, and say how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli import run_closing, streams
from lab.cli.output import print_json, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from lab.contracts import Backend
    from lab.experiment import Experiment
    from lab.jobs import Job
    from lab.launch.follow import View
    from lab.runs.directory import RunDirectory


def follow(
    run: RunDirectory,
    job: Job,
    backend: Backend,
    view: View,
    trackers: Sequence[str],
    variables: Mapping[str, str],
    store: Path,
    *,
    quiet: bool,
    as_json: bool,
) -> int:
    """Execute the job, print the closing summary, return the exit code; `store` keeps what all pages share."""
    from lab.launch import follow
    from lab.launch.track import Trackers

    mirrors = Trackers(run, tuple(trackers), view.notice, variables)
    ending = follow.execute(run, job, backend, view, mirrors)
    report = _report(run, store)
    if as_json:
        print_json(run_closing.record(run, ending, report, mirrors.links))
    elif quiet:
        print(run.id)  # noqa: T201 - the one result of a quiet run
    else:
        streams.let_be_lost()  # the exit code is the run's, and its directory has all of this
        run_closing.show(run, ending, report, mirrors.links)
    return ending.exit_code


def planned_steps(experiment: Experiment) -> int | None:
    """How many steps the experiment trains, or None when it trains nothing."""
    return experiment.train.steps if experiment.train else None


def _report(run: RunDirectory, store: Path) -> Path | None:
    """The page; a run is not worth less when it cannot be made."""
    try:
        from lab.report import page

        return page.write(run, store)
    except Exception as error:
        warn(f"the report could not be made: {type(error).__name__}: {error} (later: lab report {run.id})")
        return None
