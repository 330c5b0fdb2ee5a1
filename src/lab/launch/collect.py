"""The end of a run: its outcome, decided by the exit record, and a summary even when the worker left none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.launch import recording
from lab.runs import records, summary
from lab.runs.status import verdict

if TYPE_CHECKING:
    from lab.contracts import JobState
    from lab.runs.directory import RunDirectory
    from lab.runs.status import Word


def settle(run: RunDirectory, state: JobState, attempt: int) -> tuple[Word, str]:
    """Write how the run ended, and rebuild the summary from the metrics when the worker left none."""
    for folder in (run.path, run.logs, run.attempts):
        records.sweep(folder)
    written = summary.read(run)
    word: Word = "lost" if state.phase == "lost" else verdict(1 if state.exit_code is None else state.exit_code)
    reason = _reason(word, state, written)
    if written is None and run.metrics.is_file():
        try:
            written = summary.rebuilt(run, word, reason)
        except LabError as error:
            reason = "; ".join(filter(None, (reason, f"no summary can be rebuilt: {error.what}")))
        else:
            records.write_json(run.summary, written)
    recording.set_outcome(
        run, word, attempt, stage=state.stage, exit_code=state.exit_code, reason=reason, ended=recording.now()
    )
    return word, reason


def _reason(word: Word, state: JobState, written: records.Record | None) -> str:
    """What the stage runner saw, and what the worker itself said of it."""
    told = (written or {}).get("reason")
    own = told if word != "completed" and isinstance(told, str) and told not in state.reason else ""
    return ": ".join(part for part in (state.reason, own) if part)
