"""Observers, many as one: each hears every event, and none can end the run."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING

from lab.contracts import EVENTS, Observer
from lab.errors import UsageError, did_you_mean
from lab.plugins.blame import plainly
from lab.worker.imports import Imports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lab.contracts import Evaluation, LoopContext

logger = logging.getLogger(__name__)


class Observers:
    """Tells each observer what happens. One that raises is reported, in the words of `told`, and hears nothing more."""

    def __init__(
        self,
        named: Sequence[tuple[str, Observer]] = (),
        told: Callable[[BaseException], str] = plainly,
        imports: Imports | None = None,
    ) -> None:
        self._told = told
        self.imports = imports or Imports()
        for name, observer in named:
            refuse_unknown_methods(name, observer)
        self._listening = list(named)
        self.observed_steps = frozenset[int]().union(*(steps_of(name, observer) for name, observer in named))
        """Of all of them, also of those that are switched off later: what is measured does not change meanwhile."""
        self.switched_off: dict[str, str] = {}
        """Name to the event and the error."""

    def run_started(self, context: LoopContext) -> None:
        """The loop is built; no step has started."""
        self._tell("run_started", context)

    def step_started(self, step: int) -> None:
        """A step is about to be pulled."""
        self._tell("step_started", step)

    def phase_started(self, step: int, phase: str) -> None:
        """A phase of the step has started."""
        self._tell("phase_started", step, phase)

    def phase_ended(self, step: int, phase: str) -> None:
        """A phase of the step has ended."""
        self._tell("phase_ended", step, phase)

    def step_finished(self, step: int, line: Mapping[str, object]) -> None:
        """The step's values are on its line of metrics.jsonl."""
        self._tell("step_finished", step, line)

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """The weights after the step were evaluated."""
        self._tell("evaluated", step, evaluation)

    def run_finished(self, step: int) -> None:
        """No step comes any more."""
        self._tell("run_finished", step)

    def _tell(self, event: str, *what: object) -> None:
        for entry in tuple(self._listening):
            name, observer = entry
            try:
                with self.imports.noted():
                    getattr(observer, event)(*what)
            except BaseException as error:  # also its own KeyboardInterrupt: a person's Ctrl-C raises nothing here
                self._listening.remove(entry)
                self.switched_off[name] = f"{event}: {self._told(error)}"
                logger.exception("observer %s raised in %s and is switched off; the run goes on", name, event)


def refuse_unknown_methods(name: str, observer: Observer) -> None:
    """Raise `UsageError` for a public method that no event calls: a misspelt one would be silent for ever."""
    for attribute in dir(type(observer)):
        public = not attribute.startswith("_") and callable(getattr(type(observer), attribute))
        if public and attribute not in EVENTS:
            raise UsageError(
                f"observer '{name}': {attribute} is no event. {did_you_mean(attribute, EVENTS)}",
                "Let the name of a method that is no event start with an underscore.",
            )


def steps_of(name: str, observer: Observer) -> Collection[int]:
    """The steps that it slows down. Raises `UsageError` naming it when they are none."""
    steps = observer.observed_steps
    if isinstance(steps, Collection) and all(isinstance(step, int) for step in steps):
        return steps
    raise UsageError(f"observer '{name}': observed_steps is {steps!r}, not a frozenset of steps from 1")
