"""Following and collecting a rental from another process than the one that rented it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.cli.output import plain
from lab.cli.output import show as output
from lab.cli.rentals_finding import say
from lab.errors import Interrupted
from lab.launch import collect as settling
from lab.rental import archive
from lab.runs import records
from lab.runs.records import Tail

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.cli.rentals_finding import Found
    from lab.contracts import JobState
    from lab.runs.directory import RunDirectory

POLL_SECONDS = 1.0


def follow(found: Found) -> int:
    """Say what happens until the job has ended, then bring its results home; the command's exit code."""
    backend, receipt = found.backend, found.receipt
    run = archive.run_of(backend.journal(found.run_id))
    try:
        state = _watched(found, run)
    except KeyboardInterrupt as error:
        raise Interrupted(
            f"{found.run_id} goes on without being watched.",
            f"Look again: lab rentals monitor {found.run_id}. End it: lab rentals stop {found.run_id}",
        ) from error
    return _closed(found, run, state, backend.fetch(receipt, run))


def collect(found: Found) -> int:
    """Bring the results home; the command's exit code."""
    backend, receipt = found.backend, found.receipt
    run = archive.run_of(backend.journal(found.run_id))
    missing = backend.collect(receipt)
    return _closed(found, run, backend.reconcile(receipt), missing)


def _watched(found: Found, run: RunDirectory) -> JobState:
    stages, last = Tail(run.stages), ""
    while True:
        state = found.backend.state(found.receipt)
        for line in stages.new():
            if line.get("event") in ("started", "ended"):
                say(f"{line.get('stage')}: {line.get('event')}")
        told = f"{state.phase} {state.stage or ''} {state.reason}".strip()
        if told != last:
            say(told)
            last = told
        if state.phase in ("finished", "lost"):
            return state
        found.backend.clock.sleep(POLL_SECONDS)


def _closed(found: Found, run: RunDirectory, state: JobState, missing: Sequence[str]) -> int:
    """Write down how the job ended when nobody did, and say what came home."""
    if run.config.is_file() and state.phase in ("finished", "lost"):
        word, reason = settling.settle(run, state, _attempt(run))
        output(plain(f"{found.run_id}: {word}{': ' + reason if reason else ''}"))
    for line in missing:
        output(plain(f"not brought home: {line}", "yellow"))
    output(plain(f"{found.facts.machine_id or 'no machine'}: {found.facts.state}"))
    return 1 if missing or state.exit_code != 0 else 0


def _attempt(run: RunDirectory) -> int:
    outcome = records.read_json(run.outcome) or {}
    attempt = outcome.get("attempt")
    return attempt if isinstance(attempt, int) else 1
