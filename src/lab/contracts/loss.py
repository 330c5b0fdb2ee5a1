"""Loss: the FP32 sum of token cross-entropies, so that no mean of means can arise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

IGNORED = -100
"""A target that counts neither in the sum nor in the number of targets."""
CROSS_ENTROPY = "cross-entropy"
"""What a loss without a `reference` of its own measures, however it computes it."""


class Loss(Protocol):
    """Shapes: T tokens, d model width, V vocabulary.

    A loss that computes something else than cross-entropy on purpose brings a method `reference` of the same shape, its
    plain form. The kernel checks and the conformance kit then hold it against that, and its losses are compared with
    those of runs that measure the same.
    """

    def __call__(self, hidden: Tensor, head: Tensor, targets: Tensor) -> Tensor:
        """Return the FP32 scalar sum over targets that are not -100: hidden (T, d), head (V, d), targets (T,) int64.

        The loop calls backward on it with no factor, and scales all gradients once a step.
        """
        ...
