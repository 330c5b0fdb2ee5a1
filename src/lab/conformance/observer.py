"""Whether an observer only watches: it hears every event of a run and changes nothing of it."""

from __future__ import annotations

import pickle
import random
import sys
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import torch

from lab.conformance import ContractBroken, require
from lab.conformance.context import Heard, listening_context
from lab.contracts import EVENTS, Evaluation, Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lab.contracts import LoopContext

PHASES = ("forward", "backward", "optimizer")


def check_observer(build: Callable[[], Observer], folder: Path, *, steps: int = 3, device: str = "cpu") -> None:
    """Play a run to the observer that `build` makes, twice in one folder, as a run and its resumption do.

    It must be an `Observer`, define no public method that is no event, raise nothing, leave every random state and
    setting of the process alone, and write no file but those that it adds as artifacts.
    """
    for _ in range(2):
        observer = build()
        _check_shape(observer)
        before = {path for path in folder.rglob("*") if path.is_file()}
        heard = Heard()
        for event, call in _run(observer, listening_context(folder, heard, steps, device), steps):
            _check_event(event, call)
        written = {path for path in folder.rglob("*") if path.is_file()} - before
        added = {path for path, _, _ in heard.artifacts}
        strays = sorted(path.name for path in written - added)
        require(not strays, f"the observer wrote {', '.join(strays)} without adding it as an artifact")


def _check_shape(observer: Observer) -> None:
    require(isinstance(observer, Observer), f"{type(observer).__name__} is no lab.contracts.Observer")
    public = {name for name in dir(type(observer)) if not name.startswith("_")}
    methods = {name for name in public if callable(getattr(type(observer), name))}
    strange = sorted(methods - set(EVENTS))
    require(not strange, f"{', '.join(strange)}: a public method that is no event is never called")
    steps = observer.observed_steps
    sound = isinstance(steps, frozenset) and all(isinstance(step, int) and step >= 1 for step in steps)
    require(sound, f"observed_steps must be a frozenset of steps from 1, not {steps!r}")


def _run(observer: Observer, context: LoopContext, steps: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """The events of a run: an unobserved step's values come once the next step is under way."""
    yield "run_started", partial(observer.run_started, context)
    yield "evaluated", partial(observer.evaluated, 0, _evaluation())
    waiting: int | None = None
    for step in range(1, steps + 1):
        yield "step_started", partial(observer.step_started, step)
        if waiting is not None:
            yield "step_finished", partial(observer.step_finished, waiting, _line(waiting))
            waiting = None
        for phase in PHASES:
            yield "phase_started", partial(observer.phase_started, step, phase)
            yield "phase_ended", partial(observer.phase_ended, step, phase)
        if step in observer.observed_steps or step == steps:
            yield "step_finished", partial(observer.step_finished, step, _line(step))
        else:
            waiting = step
    yield "evaluated", partial(observer.evaluated, steps, _evaluation())
    yield "run_finished", partial(observer.run_finished, steps)


def _check_event(event: str, call: Callable[[], object]) -> None:
    before = _surroundings()
    try:
        answer = call()
    except ContractBroken:
        raise
    except Exception as error:
        raise ContractBroken(f"{event} raises {type(error).__name__}: {error}") from error
    require(answer is None, f"{event} returns {answer!r}, but an observer only watches")
    for what, was, now in zip(before, before.values(), _surroundings().values(), strict=True):
        require(was == now, f"{event} changes {what}")


def _surroundings() -> dict[str, object]:
    """What a run computes with beside its own tensors."""
    state: dict[str, object] = {
        "torch's random state": torch.get_rng_state().numpy().tobytes(),
        "Python's random state": random.getstate(),
        "whether gradients are on": torch.is_grad_enabled(),
        "the default dtype": torch.get_default_dtype(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "TF32 for matmuls": torch.backends.cuda.matmul.allow_tf32,
    }
    if torch.cuda.is_available():
        state["the GPU's random state"] = torch.cuda.get_rng_state().numpy().tobytes()
    if "numpy" in sys.modules:
        state["numpy's random state"] = pickle.dumps(sys.modules["numpy"].random.get_state())
    return state


def _line(step: int) -> MappingProxyType[str, object]:
    return MappingProxyType(
        {"kind": "step", "step": step, "loss": 10.5 / step, "gradient_norm": 1.0, "seconds": 0.5, "targets": 100}
    )


def _evaluation() -> Evaluation:
    return Evaluation(loss=10.5, targets=100, tokens=101, batches=1)
