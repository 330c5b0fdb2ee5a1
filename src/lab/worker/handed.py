"""What a loop hands over, checked where it arrives: a fault of its plugin is told by its name and by its step.

Costs some microseconds a step, outside the clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, NoReturn

import torch

from lab.contracts import Evaluation, Step
from lab.errors import LabError
from lab.plugins.containing import one_line

COUNTS = ("targets", "tokens", "segments", "packs", "micro_batches")
LARGEST = 2**63


@dataclass(frozen=True)
class Handed:
    """Checks each thing and gives it back. Raises `LabError` for one that is not what `lab.contracts` asks for."""

    loop: str = "the loop"
    """As errors name it: with its plugin and distribution."""
    remedy: str = "See lab.contracts: Loop, Step and Evaluation."

    def steps(self, given: object) -> Iterator[Any]:
        """What `steps()` returned: an iterator."""
        if not isinstance(given, Iterator):
            self._refuse("steps()", given, "an iterator of Step")
        return given

    def step(self, number: int, given: object) -> Step:
        """What was yielded: a `Step` whose numbers can be read, counted and written."""
        where = f"step {number}"
        if not isinstance(given, Step):
            self._refuse(where, given, "a Step")
        self._scalar(f"{where}: loss", given.loss)
        if given.gradient_norm is not None:
            self._scalar(f"{where}: gradient_norm", given.gradient_norm)
        if given.learning_rate is not None:
            self._real(f"{where}: learning_rate", given.learning_rate)
        self._counts(where, given, COUNTS, unknown=("flops",))
        self._text(f"{where}: fed", given.fed)
        self._values(where, given.values)
        return given

    def new(self, number: int, values: Mapping[str, float], line: Mapping[str, object]) -> Mapping[str, float]:
        """The step's values, none of which has the name of something else on its line."""
        for name in values:
            if name in line:
                self._refuse(f"step {number}: a name in values", name, "a name that no line of metrics.jsonl has")
        return values

    def evaluation(self, step: int, given: object) -> Evaluation | None:
        """What `evaluate()` returned."""
        where = f"the evaluation after step {step}"
        if given is None:
            return None
        if not isinstance(given, Evaluation):
            self._refuse(where, given, "an Evaluation or None")
        self._real(f"{where}: loss", given.loss)
        self._counts(where, given, ("targets", "tokens", "batches"), unknown=("bytes",))
        self._text(f"{where}: inputs", given.inputs)
        return given

    def state(self, given: object) -> dict[str, object]:
        """What `state_dict()` returned."""
        if not isinstance(given, dict):
            self._refuse("state_dict()", given, "a dict")
        return given

    def weights(self, given: object) -> str | None:
        """What `weights()` returned."""
        return self._text("weights()", given)

    def _values(self, where: str, given: object) -> None:
        if not isinstance(given, Mapping):
            self._refuse(f"{where}: values", given, "a mapping")
        for name, value in given.items():
            if not isinstance(name, str):
                self._refuse(f"{where}: a name in values", name, "text")
            check = self._scalar if isinstance(value, torch.Tensor) else self._real
            check(f"{where}: values['{name}']", value)

    def _scalar(self, where: str, value: object) -> None:
        if not isinstance(value, torch.Tensor) or value.numel() != 1 or value.is_complex() or value.is_meta:
            self._refuse(where, value, "a tensor of one real number")

    def _counts(self, where: str, given: object, names: tuple[str, ...], unknown: tuple[str, ...]) -> None:
        """Each is a whole number from 0; those of `unknown` may be None."""
        for name in (*names, *unknown):
            value = getattr(given, name)
            if value is None and name in unknown:
                continue
            if type(value) is not int or not 0 <= value < LARGEST:
                self._refuse(f"{where}: {name}", value, "an int from 0")

    def _text(self, where: str, given: object) -> str | None:
        if given is not None and not isinstance(given, str):
            self._refuse(where, given, "text or None")
        return given

    def _real(self, where: str, value: object) -> None:
        if not isinstance(value, Real) or isinstance(value, bool):
            self._refuse(where, value, "a number")

    def _refuse(self, where: str, given: object, wanted: str) -> NoReturn:
        raise LabError(f"{where}: {self.loop} gives {_shown(given)}, and {wanted} belongs there", self.remedy)


def _shown(given: object) -> str:
    """The thing in one line, whatever its own code makes of being asked."""
    kind = type(given).__name__
    if isinstance(given, torch.Tensor):
        return f"a {kind} of shape {tuple(given.shape)}, {given.dtype}, on {given.device.type}"
    try:
        text = one_line(repr(given))
    except Exception:
        return f"a {kind}"
    return f"{text} ({kind})" if given is not None else text
