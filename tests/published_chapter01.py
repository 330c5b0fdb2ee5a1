"""What the first chapter publishes, and what of a record of the chapter differs from it."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import pytest

PUBLISHED: dict[str, object] = {
    "model": "HuggingFaceTB/SmolLM2-135M",
    "revision": "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
    "packaged": False,
    "parameters": 134_515_008,
    "precision": "float32",
    "attention": "eager",
    "generation.prompt": "I like",
    "generation.id": 288,
    "generation.text": " to",
    "ids": [57, 702, 5646, 0],
    # The published losses have six decimals; another machine's kernels round their sums otherwise.
    "positions.0.loss": pytest.approx(6.676604, abs=5e-5),
    "positions.1.loss": pytest.approx(10.608803, abs=5e-5),
    "positions.2.loss": pytest.approx(7.081603, abs=5e-5),
    "loss.by_hand": pytest.approx(8.122337, abs=5e-5),
    "loss.library": pytest.approx(8.122337, abs=5e-5),
    "weights_unchanged_by_backward": True,
    "weight.element": [507, 1365],
    "weight.before": 0.484375,
    "weight.gradient": pytest.approx(0.3117008, rel=2e-4),
    "weight.after_backward": 0.484375,
    "weight.after_update": pytest.approx(0.4842745, abs=1e-7),
    "weight.learning_rate": 1e-4,
    "weight.weight_decay": 0.01,
    "toy_layer.X": [[1, 2]],
    "toy_layer.W": [[1, -1], [0.5, 2]],
    "toy_layer.dY": [[0.1, -0.2]],
    "toy_layer.Y": [[2, 3]],
    "toy_layer.dW.0": pytest.approx([0.1, -0.2], rel=1e-12),
    "toy_layer.dW.1": pytest.approx([0.2, -0.4], rel=1e-12),
    "toy_layer.dX.0": pytest.approx([0.3, -0.35], rel=1e-12),
}


def unlike_published(record: dict[str, Any]) -> list[str]:
    """The dotted keys whose values are not the published ones."""
    return [key for key, published in PUBLISHED.items() if value(record, key) != published]


def broken_relations(record: dict[str, Any]) -> list[str]:
    """What should hold for any model, by name, and does not."""
    return [name for name, holds in relations(record).items() if not holds]


def value(record: Any, key: str) -> Any:
    """The value at a dotted key; a missing one is None."""
    try:
        return reduce(lambda part, name: part[int(name) if isinstance(part, list) else name], key.split("."), record)
    except (KeyError, IndexError, TypeError):
        return None


def relations(record: dict[str, Any]) -> dict[str, bool]:
    """Shares, losses, the layer by hand, and the moments of the first update."""
    positions, loss, layer, weight = (record[name] for name in ("positions", "loss", "layer", "weight"))
    losses = [one["loss"] for one in positions]
    shares = [sum(token["probability"] for token in one["top"]) + one["rest"] for one in positions]
    surprise = [-math.log(one["target"]["probability"]) for one in positions]
    tops = [[token["probability"] for token in one["top"]] for one in positions]
    return {
        "each position shows five tokens, the likeliest first": all(
            len(top) == 5 and top == sorted(top, reverse=True) for top in tops
        ),
        "the shares of a position add up to one": shares == pytest.approx([1.0] * len(shares), abs=1e-5),
        "a position's loss is the surprise at its target": losses == pytest.approx(surprise, rel=1e-5),
        "each target is the next id": [one["target"]["id"] for one in positions] == record["ids"][1:],
        "the loss is the mean over positions": loss["by_hand"] == pytest.approx(sum(losses) / len(losses), rel=1e-6),
        "the library's loss is the one by hand": loss["library"] == pytest.approx(loss["by_hand"], rel=1e-6),
        "dW is dY^T X": layer["weight_gradient_largest"] > 0
        and layer["weight_gradient_difference"] <= 1e-5 * layer["weight_gradient_largest"],
        "dX is dY W": layer["input_gradient_largest"] > 0
        and layer["input_gradient_difference"] <= 1e-5 * layer["input_gradient_largest"],
        "backward leaves the weight": weight["after_backward"] == weight["before"],
        "the update moves the weight": weight["after_update"] != weight["before"],
        "m is a tenth of the gradient": weight["m"] == pytest.approx(0.1 * weight["gradient"], rel=1e-5),
        "v is a thousandth of its square": weight["v"] == pytest.approx(1e-3 * weight["gradient"] ** 2, rel=1e-5),
    }
