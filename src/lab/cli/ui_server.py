"""Runs a tracker's own viewer as a child process until a person has seen enough."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import typer

from lab.cli import output
from lab.errors import AskedToStop, LabError, UsageError
from lab.jobs.stages import end_with_parent

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab.settings import Settings

STARTING_SECONDS = 60.0


def serve(port: int, settings: Settings, run: RunDirectory | None = None, *, open_page: bool) -> None:
    """Start the viewer of the default tracker, say where its page is, or that of one run, and wait."""
    from lab.experiment import PartChoice
    from lab.launch.track import DEFAULT
    from lab.plugins import load

    tracker = load(settings).build("tracker", PartChoice(name=DEFAULT[0]))
    argv, variables, address = tracker.viewer(port, run)
    if not argv:
        output.show(output.plain(address))
        typer.launch(address) if open_page else None
        return
    if _taken(port):
        again = "lab ui" if run is None else f"lab ui {run.id}"
        raise UsageError(f"Port {port} is in use on this machine.", f"Another one: {again} --port {port + 1}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(AskedToStop.exit_code))  # so that the server ends too
    process = subprocess.Popen(
        argv,
        env={**os.environ, **variables},
        stdout=subprocess.DEVNULL,
        preexec_fn=end_with_parent,
        process_group=0,  # a terminal sends Ctrl-C to a whole group, and the server would end in a traceback
    )
    try:
        wait_for(port, process)
        output.show(output.plain(f"{address}  (Ctrl-C ends it)"))
        if open_page:
            typer.launch(address)
        process.wait()
    except KeyboardInterrupt:
        pass
    finally:
        process.terminate()
        process.wait()


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Return when something answers on the port; `LabError` when the process ended first, or took too long."""
    deadline = time.monotonic() + STARTING_SECONDS
    while not _taken(port):
        if process.poll() is not None:
            raise LabError(f"MLflow's server ended with exit code {process.returncode}.", "Its own words stand above.")
        if time.monotonic() > deadline:
            raise LabError(f"MLflow's server did not answer within {STARTING_SECONDS:g} s.")
        time.sleep(0.1)
