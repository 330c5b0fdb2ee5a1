"""Observer: watches a run inside the worker and never changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lab.contracts.loop import Evaluation, LoopContext

EVENTS = ("run_started", "step_started", "phase_started", "phase_ended", "step_finished", "evaluated", "run_finished")


class Observer:
    """Override any event. Each carries its step: `step_finished(n)` may come after `step_started(n + 1)`.

    An event that raises is reported and its observer switched off; a public method that is no event is refused.
    """

    observed_steps: frozenset[int] = frozenset()
    """Steps that observing makes slower: outside the normal region, and read before the next one starts."""

    def run_started(self, context: LoopContext) -> None:
        """The loop is built; no step has started."""

    def step_started(self, step: int) -> None:
        """Step `step` (from 1) is about to be pulled."""

    def phase_started(self, step: int, phase: str) -> None:
        """A phase of the step has started."""

    def phase_ended(self, step: int, phase: str) -> None:
        """A phase of the step has ended."""

    def step_finished(self, step: int, line: Mapping[str, object]) -> None:
        """The step's values are on its line of metrics.jsonl."""

    def evaluated(self, step: int, evaluation: Evaluation) -> None:
        """The weights after `step` (0: before training) were evaluated."""

    def run_finished(self, step: int) -> None:
        """No step comes any more; `step` was the last."""
