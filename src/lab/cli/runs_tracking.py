"""Mirroring a run into trackers, in this process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

from lab.cli.output import plain, print_json
from lab.cli.output import show as output
from lab.errors import AskedToStop, Interrupted
from lab.launch import resume, scratch, track, variables
from lab.launch.stops import Stops
from lab.runs import records
from lab.runs.status import status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lab.contracts import Tracker
    from lab.plugins import Plugins
    from lab.runs.directory import RunDirectory
    from lab.settings import Settings

SYNC_SECONDS = 5.0


def track_all(
    run: RunDirectory, names: Sequence[str], plugins: Plugins, settings: Settings, *, live: bool, as_json: bool
) -> None:
    """Bring each tracker up to date, and with `live` keep it so until the run has ended."""
    for name in names:
        plugins.find("tracker", name)  # an unknown or empty name is told as one
    if live:
        os.nice(track.QUIET_NICENESS)
    known = variables.variables(settings)
    variables.export(known, known)
    experiment = resume.recorded_experiment(run, records.read_json(run.config) or {})
    left = list(names)
    with _ending_in_words(run, left) as stops, scratch.own_folder():
        for name in names:
            with contextlib.redirect_stdout(sys.stderr):  # trackers like to talk; the link is the result
                tracker = plugins.build("tracker", track.choice(experiment, name), f"trackers.{name}")
                link = _synced(tracker, run, stops, live=live)
            left.remove(name)
            _tell(run, name, link, as_json=as_json)


@contextlib.contextmanager
def _ending_in_words(run: RunDirectory, left: list[str]) -> Iterator[Stops]:
    """Turn Ctrl-C and SIGTERM into what is `left` and the code for it, whatever a tracker made of the interruption."""
    with Stops(raising=True) as stops:
        try:
            yield stops
        except (Exception, KeyboardInterrupt):
            if not stops.numbers:
                raise
    if stops.numbers and left:
        ended = Interrupted if stops.numbers[0] == signal.SIGINT else AskedToStop
        go_on = "\n".join(track.later(run, name) for name in left)
        raise ended(
            f"{run.id}: not all of it is mirrored into {', '.join(left)}.", f"What is there stays. Go on with:\n{go_on}"
        )


def _tell(run: RunDirectory, name: str, link: str | None, *, as_json: bool) -> None:
    note = (records.read_json(run.tracker_link(name)) or {}).get("note")
    if as_json:
        print_json({"tracker": name, "link": link} | ({"note": note} if note else {}))
    else:
        output(plain(f"{name}: {link or note or 'up to date'}"))


def _synced(tracker: Tracker, run: RunDirectory, stops: Stops, *, live: bool) -> str | None:
    while True:
        ended = not live or status(run).final  # asked before the sync, which then sees everything
        link = tracker.sync(run)
        if stops.numbers:  # swallowed: nobody knows what it cut short
            raise KeyboardInterrupt
        if ended:
            return link
        time.sleep(SYNC_SECONDS)
