"""Chapter 1, one training step from top to bottom: predict, score, go backward, update, and look at every number.

The model is a real one. The text is one short sentence, so that each position fits on a line of a table.
Legend of shapes: T tokens, V vocabulary, d model width, f width inside the MLP.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lab.contracts import Evaluation, LoopContext, Step
from lab.runs.records import write_bytes
from lab.training.fingerprint import weights
from lab_chapter01.figure import draw_positions, draw_weight
from lab_chapter01.model import load
from lab_chapter01.options import Options
from lab_chapter01.toy import toy_layer

if TYPE_CHECKING:
    from collections.abc import Iterator


class OneStep:
    """The exercise of the chapter; step 1 is the one that is looked at, and more steps repeat it."""

    def __init__(self, context: LoopContext) -> None:
        assert isinstance(context.options, Options)
        self.context = context
        self.options = context.options
        loaded = load(self.options, context.device)
        self.model, self.tokenizer = loaded.model, loaded.tokenizer
        self.label, self.revision = loaded.label, loaded.revision
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.options.learning_rate, weight_decay=self.options.weight_decay
        )
        self.done = 0
        context.note("model", self.label)

    def steps(self) -> Iterator[Step]:
        """Yield one update after another; the first leaves its record in the report."""
        while True:
            # 1. Before any training: which token does the model think comes next?
            generation = self.most_likely_next(self.options.prompt)

            # 2. Text becomes ids. The end-of-text token is part of the lesson: the model must learn to stop.
            ids = self.tokenizer(self.options.text, add_special_tokens=False)["input_ids"]
            ids = torch.tensor([[*ids, self.tokenizer.eos_token_id]], device=self.context.device)  # (1, T)

            # 3. Forget the gradient of the step before. Here there is none yet, and the habit costs nothing.
            self.optimizer.zero_grad()

            # 4. Forward. Two hooks keep what flows into and out of one layer, for the check in 7.
            layer = self.followed_layer()
            seen = Seen(layer)
            with self.context.phase("forward"):
                logits = self.model(input_ids=ids).logits[0]  # (T, V)

            # 5. Loss. Position t predicts token t + 1, so the last logits and the first id have no partner.
            targets = ids[0, 1:]  # (T - 1,)
            with self.context.phase("loss"):
                losses = cross_entropy(logits[:-1], targets, reduction="none")  # (T - 1,)
                loss = losses.mean()
            positions = self.positions(ids[0], logits.detach(), losses.detach())
            # The library shifts by itself when it is given labels. Shifting twice would predict two tokens ahead.
            with torch.no_grad():
                library_loss = self.model(input_ids=ids, labels=ids).loss

            # 6. Backward fills .grad and moves no weight.
            before = layer.weight.detach().clone()
            with self.context.phase("backward"):
                loss.backward()
            unchanged = torch.equal(before, layer.weight)

            # 7. What autograd did in that layer, done by hand: dW = dY^T X and dX = dY W.
            by_hand = seen.compare(layer)
            row, column = self.element(layer)
            assert layer.weight.grad is not None
            gradient = layer.weight.grad[row, column].item()

            # 8. Clip. The limit is infinite: the norm is measured and nothing is scaled, as in the published exercise.
            with self.context.phase("clip"):
                norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=math.inf)

            # 9. Update. AdamW keeps two running means for each weight: m of the gradient, v of its square.
            with self.context.phase("optimizer"):
                self.optimizer.step()
            moments = self.optimizer.state[layer.weight]
            tracked = {
                "element": [row, column],
                "before": before[row, column].item(),
                "gradient": gradient,
                "after_backward": before[row, column].item() if unchanged else math.nan,
                "after_update": layer.weight[row, column].item(),
                "m": moments["exp_avg"][row, column].item(),
                "v": moments["exp_avg_sq"][row, column].item(),
            }

            self.done += 1
            if self.done == 1:
                self.publish(
                    {
                        "schema": 1,
                        "model": self.label,
                        "revision": self.revision,
                        "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
                        "generation": generation,
                        "ids": ids[0].tolist(),
                        "positions": positions,
                        "loss": {"by_hand": loss.item(), "library": library_loss.item()},
                        "weights_unchanged_by_backward": unchanged,
                        "layer": by_hand,
                        "weight": tracked,
                        "toy_layer": toy_layer(),
                    }
                )
            yield Step(
                loss=loss.detach(),
                targets=len(targets),
                gradient_norm=norm.detach(),
                tokens=len(targets),
                learning_rate=self.options.learning_rate,
                values={"tracked_weight": tracked["after_update"]},
            )

    def most_likely_next(self, prompt: str) -> dict[str, Any]:
        """The greedy continuation by one token."""
        ids = torch.tensor([self.tokenizer(prompt, add_special_tokens=False)["input_ids"]], device=self.context.device)
        with torch.no_grad():
            likely = int(self.model(input_ids=ids).logits[0, -1].argmax())
        return {"prompt": prompt, "id": likely, "text": self.tokenizer.decode([likely])}

    def positions(self, ids: Tensor, logits: Tensor, losses: Tensor) -> list[dict[str, Any]]:
        """For each position: the most probable tokens, the rest, and what the target got."""
        rows = []
        for position, target in enumerate(ids[1:].tolist()):
            probabilities = logits[position].softmax(-1)  # (V,)
            top = probabilities.topk(min(self.options.top, probabilities.numel()))
            rows.append(
                {
                    "after": self.tokenizer.decode(ids[: position + 1].tolist()),
                    "top": [
                        {"id": int(token), "text": self.tokenizer.decode([int(token)]), "probability": float(share)}
                        for token, share in zip(top.indices, top.values, strict=True)
                    ],
                    "rest": float(1 - top.values.sum()),
                    "target": {
                        "id": target,
                        "text": self.tokenizer.decode([target]),
                        "probability": float(probabilities[target]),
                    },
                    "loss": float(losses[position]),
                }
            )
        return rows

    def followed_layer(self) -> nn.Linear:
        """The first MLP's down projection: weight (d, f), no bias."""
        layer: nn.Linear = self.model.model.layers[0].mlp.down_proj
        return layer

    def element(self, layer: nn.Linear) -> tuple[int, int]:
        """The followed weight; a smaller model than the published one has fewer rows and columns."""
        rows, columns = layer.weight.shape
        return self.options.element[0] % rows, self.options.element[1] % columns

    def evaluate(self) -> Evaluation | None:
        """One sentence has nothing held back."""
        return None

    def publish(self, record: dict[str, Any]) -> None:
        """Leave the record as JSON and two figures for the report."""
        folder = self.context.folder
        write_bytes(folder / "chapter01.json", (json.dumps(record, indent=2, ensure_ascii=False) + "\n").encode())
        self.context.add_artifact(folder / "chapter01.json", "json", "Every number of the step")
        draw_positions(record["positions"], folder / "chapter01-positions.svg")
        self.context.add_artifact(folder / "chapter01-positions.svg", "figure", "What each position predicts")
        draw_weight(record["weight"], folder / "chapter01-weight.svg")
        self.context.add_artifact(folder / "chapter01-weight.svg", "figure", "One weight through one step")

    def state_dict(self) -> dict[str, object]:
        """Weights, moments and how many steps were done."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "done": self.done}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on at the step after the one that was saved."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.done = state["done"]

    def weights(self) -> str:
        """SHA-256 (hex) of the model's weights."""
        return weights(self.model)


class Seen:
    """What went into a linear layer and what came back to it, kept by hooks for one forward and one backward."""

    def __init__(self, layer: nn.Linear) -> None:
        self.hooks = [
            layer.register_forward_hook(self.keep_input),
            layer.register_full_backward_hook(self.keep_gradients),
        ]

    def keep_input(self, _layer: nn.Module, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        """Keep X (T, f)."""
        self.x = inputs[0].detach()[0]

    def keep_gradients(self, _layer: nn.Module, to_input: tuple[Tensor, ...], from_output: tuple[Tensor, ...]) -> None:
        """Keep dX (T, f) and dY (T, d)."""
        self.dx, self.dy = to_input[0].detach()[0], from_output[0].detach()[0]

    def compare(self, layer: nn.Linear) -> dict[str, Any]:
        """The layer's gradients by hand beside autograd's: largest absolute differences."""
        for hook in self.hooks:
            hook.remove()
        assert layer.weight.grad is not None
        dw, dx = self.dy.T @ self.x, self.dy @ layer.weight.detach()
        return {
            "weight_shape": list(layer.weight.shape),
            "weight_gradient_largest": layer.weight.grad.abs().max().item(),
            "weight_gradient_difference": (dw - layer.weight.grad).abs().max().item(),
            "input_gradient_largest": self.dx.abs().max().item(),
            "input_gradient_difference": (dx - self.dx).abs().max().item(),
        }
