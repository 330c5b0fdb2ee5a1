"""The `activation-sizes` observer: hears every layer through torch's own hooks, and only while a forward pass runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.modules.module import register_module_forward_hook

from activation_sizes.figure import draw
from lab.contracts import Observer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from activation_sizes.options import Options
    from lab.contracts import LoopContext

FORWARD = "forward"


class ActivationSizes(Observer):
    """Sums squares on the device during a step and reads them once the step is over: nothing waits meanwhile."""

    def __init__(self, options: Options) -> None:
        self.observed_steps = frozenset(options.steps)
        self._layer = options.layer
        self._hook: Any = None
        self._place = 0
        self._sums: list[tuple[Tensor, int]] = []
        self._sizes: dict[int, list[float]] = {}

    def run_started(self, context: LoopContext) -> None:
        """Remember where the figure goes."""
        self._context = context

    def phase_started(self, step: int, phase: str) -> None:
        """Listen from here, at the first layer again for each micro-batch."""
        if phase == FORWARD and step in self.observed_steps:
            self._place = 0
            self._hook = register_module_forward_hook(self._hear)

    def phase_ended(self, step: int, phase: str) -> None:
        """Listen no more: an evaluation's forward passes are none of this step's."""
        if phase == FORWARD and self._hook is not None:
            self._hook.remove()
            self._hook = None

    def step_finished(self, step: int, line: Mapping[str, object]) -> None:
        """Bring the sums of an observed step home."""
        if step in self.observed_steps:
            self._sizes[step] = [(float(squares) / count) ** 0.5 for squares, count in self._sums]
            self._sums = []

    def run_finished(self, step: int) -> None:
        """Leave the numbers and their picture, unless there is nothing to show."""
        if not any(self._sizes.values()):
            return
        folder = self._context.folder
        record = {"schema": 1, "layer": self._layer, "root_mean_square": {str(k): v for k, v in self._sizes.items()}}
        numbers, picture = folder / "activation-sizes.json", folder / "activation-sizes.svg"
        numbers.write_text(json.dumps(record) + "\n", encoding="utf-8")
        picture.write_text(draw(self._sizes, self._layer), encoding="utf-8")
        self._context.add_artifact(numbers, "json", "Root mean square of each layer's output, by step")
        self._context.add_artifact(picture, "figure", "How large activations are, layer by layer")

    def _hear(self, module: torch.nn.Module, inputs: object, output: object) -> None:
        if type(module).__name__ != self._layer or not isinstance(output, Tensor):
            return
        squares = output.detach().float().square().sum()
        if self._place == len(self._sums):
            self._sums.append((squares, output.numel()))
        else:
            before, count = self._sums[self._place]
            self._sums[self._place] = (before + squares, count + output.numel())
        self._place += 1
