"""A step's numbers on their way from the device.

They are copied right behind the step: asking a tensor for its value later would also wait for all that the device has
been given since, which is the next step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

    from lab.contracts import Step


class Numbers:
    """Loss, gradient norm and values of one step, as floats once they are asked for."""

    def __init__(self, step: Step) -> None:
        self._loss = _sent(step.loss)
        self._norm = None if step.gradient_norm is None else _sent(step.gradient_norm)
        self._values = {name: _sent(value) for name, value in step.values.items()}
        self._arrived: torch.cuda.Event | None = None
        if step.loss.is_cuda:
            self._arrived = torch.cuda.Event()
            self._arrived.record()

    def loss(self) -> float:
        """The step's mean loss; waits for the step, and for nothing after it."""
        self._wait()
        return float(self._loss)

    def gradient_norm(self) -> float | None:
        """The norm before clipping, where the loop gives one."""
        self._wait()
        return None if self._norm is None else float(self._norm)

    def values(self) -> dict[str, float]:
        """What else the loop gives for the step's line."""
        self._wait()
        return {name: float(value) for name, value in self._values.items()}

    def _wait(self) -> None:
        if self._arrived is not None:
            self._arrived.synchronize()


def _sent(value: Tensor | float) -> Tensor | float:
    """Begin to copy from a GPU into pinned memory; what is on the CPU is there."""
    return value.detach().to("cpu", non_blocking=True) if isinstance(value, torch.Tensor) else value
