"""What a person is told of a run that nobody stopped: its time was over, and how it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.jobs.stages import JOB_LIMIT, TIME_LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.runs.directory import RunDirectory


def advice(run: RunDirectory, reason: str, config: Mapping[str, object]) -> str:
    """How to go on with a run that its time limit ended; empty for any other run."""
    if TIME_LIMIT not in reason:
        return ""
    if run.checkpoint.is_file():
        goes_on = f"lab resume {run.id} goes on from its checkpoint, for as long again."
    else:
        goes_on = f"It has no checkpoint: lab resume {run.id} starts over, for as long again."
    return f"Nobody stopped it: its time was over. {goes_on} {_for_longer(reason, config)}"


def _for_longer(reason: str, config: Mapping[str, object]) -> str:
    """Where a larger limit can be set: a resumed run repeats what --set and its own stages said."""
    files, overrides = config.get("files"), config.get("overrides")
    set_here = isinstance(overrides, list) and any(str(text).strip().startswith(JOB_LIMIT) for text in overrides)
    if JOB_LIMIT not in reason or set_here or not (isinstance(files, list) and files):
        return "For longer, start a new run with a larger limit."
    return f"For longer, first raise {JOB_LIMIT} in {files[0]}."
