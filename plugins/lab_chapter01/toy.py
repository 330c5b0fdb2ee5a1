"""The backward of one linear layer, small enough to check on paper."""

from __future__ import annotations

import torch

X = ((1.0, 2.0),)
W = ((1.0, -1.0), (0.5, 2.0))
UPSTREAM = ((0.1, -0.2),)


def toy_layer() -> dict[str, list[list[float]]]:
    """Y = X W in float64, with the gradients that autograd gives: dW = X^T dY and dX = dY W^T."""
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    w = torch.tensor(W, dtype=torch.float64, requires_grad=True)
    upstream = torch.tensor(UPSTREAM, dtype=torch.float64)
    # X (1, 2) is one token. nn.Linear stores W transposed; on paper the product is easier to follow without.
    y = x @ w
    y.backward(upstream)
    assert w.grad is not None
    assert x.grad is not None
    return {
        "X": x.tolist(),
        "W": w.tolist(),
        "dY": upstream.tolist(),
        "Y": y.tolist(),
        "dW": w.grad.tolist(),
        "dX": x.grad.tolist(),
    }
