"""The backward of one linear layer, done by hand and held against what autograd did."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor, nn


class Watched:
    """Keeps what goes into a linear layer and what comes back to it, for one forward and one backward.

    Shapes: X (T, f) goes in, Y = X W^T (T, d) comes out, dY and dX come back; the weight W is (d, f).
    """

    def __init__(self, layer: nn.Linear) -> None:
        self.layer = layer
        self.hooks = [
            layer.register_forward_hook(self._keep_input),
            layer.register_full_backward_hook(self._keep_gradients),
        ]

    def _keep_input(self, _layer: nn.Module, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        self.x = inputs[0].detach()[0]

    def _keep_gradients(self, _layer: nn.Module, to_input: tuple[Tensor, ...], from_output: tuple[Tensor, ...]) -> None:
        self.dx, self.dy = to_input[0].detach()[0], from_output[0].detach()[0]

    def compare(self) -> dict[str, Any]:
        """The layer's gradients by hand beside autograd's: the largest value, and the largest absolute difference."""
        for hook in self.hooks:
            hook.remove()
        weight, gradient = self.layer.weight.detach(), self.layer.weight.grad
        assert gradient is not None
        # Every row of X and of dY is one token. Each adds its part to dW, and gets its own row of dX.
        dw = self.dy.T @ self.x  # (d, T) (T, f) -> (d, f)
        dx = self.dy @ weight  # (T, d) (d, f) -> (T, f)
        return {
            "weight_shape": list(weight.shape),
            "weight_gradient_largest": gradient.abs().max().item(),
            "weight_gradient_difference": (dw - gradient).abs().max().item(),
            "input_gradient_largest": self.dx.abs().max().item(),
            "input_gradient_difference": (dx - self.dx).abs().max().item(),
        }
