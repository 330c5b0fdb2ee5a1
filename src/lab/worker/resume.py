"""Going on from a checkpoint: what it holds, what it is refused for, and the lines that it leaves behind."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from lab.errors import LabError
from lab.experiment import fingerprint
from lab.runs import attempts, records
from lab.training import checkpoint, random
from lab.worker.execute import Position

if TYPE_CHECKING:
    from lab.contracts import Loop
    from lab.experiment import Experiment
    from lab.runs.directory import RunDirectory
    from lab.training.checkpoint import State

logger = logging.getLogger(__name__)


def save(
    run: RunDirectory, experiment: Experiment, held: dict[str, object], position: Position, elapsed_seconds: float
) -> None:
    """Replace the run's checkpoint by one of the whole step at `position`, unless that would lose the last good one.

    `held` is the loop's own state.
    """
    checkpoint.check_state(held, position.step)
    state = {
        "schema": 1,
        "step": position.step,
        "targets": position.targets,
        "elapsed_seconds": elapsed_seconds,
        "experiment": fingerprint(experiment),
        "data": _data(run),
        "random": random.state(),
        "loop": held,
    }
    if run.metrics.exists():
        records.sync(run.metrics)  # else a power cut could leave a checkpoint that counts steps without a line
    checkpoint.save(run.checkpoint, state)
    logger.info("saved step %d", position.step)


def load(run: RunDirectory, experiment: Experiment) -> State | None:
    """The checkpoint to go on from, or None for a start. Raises `LabError` when it belongs to something else."""
    if checkpoint.remove_parts(run.checkpoint):
        logger.warning("an unfinished checkpoint was removed; the one before it is whole")
    state = checkpoint.load(run.checkpoint)
    if state is None:
        return None
    for what, own in (("experiment", fingerprint(experiment)), ("data", _data(run))):
        if state.get(what) != own:
            raise LabError(
                f"{run.checkpoint}: was saved with another {what} ({state.get(what)}) than the run has now ({own}).",
                "Resume with what saved it, or start a new run.",
            )
    return state


def restore(state: State, loop: Loop) -> Position:
    """Put the loop and every random generator where the checkpoint found them."""
    loop.load_state_dict(state["loop"])
    random.restore(state["random"])
    return Position(step=state["step"], targets=state["targets"])


def rewind(run: RunDirectory, position: Position) -> None:
    """Move the lines that an earlier attempt wrote after `position` aside, into a file of their own."""
    outcome = records.read_json(run.outcome) or {}
    attempt = outcome.get("attempt")
    previous = max(1, attempt - 1) if isinstance(attempt, int) else 1
    while run.earlier_metrics(previous).exists():
        previous += 1
    step = position.step if position.step else -1  # a start repeats the evaluation of step 0 too
    moved = attempts.rewind_metrics(run, previous, step)
    if moved:
        logger.info("moved %d lines after step %d to %s", moved, position.step, run.earlier_metrics(previous).name)


def _data(run: RunDirectory) -> str | None:
    """The identity of the prepared data."""
    return (records.read_json(run.data_manifest) or {}).get("identity")
