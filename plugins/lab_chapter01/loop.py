"""Chapter 1, one training step from top to bottom: predict, score, go backward, update, and look at every number.

Read `steps` first: it is the whole chapter, in the order in which a step is computed. The model is a real one; the text
is one short sentence, so that each position fits on a line of a picture.
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
from lab_chapter01.layer import Watched
from lab_chapter01.model import load
from lab_chapter01.options import Options
from lab_chapter01.predictions import each_position, most_likely_next
from lab_chapter01.toy import toy_layer

if TYPE_CHECKING:
    from collections.abc import Iterator


class OneStep:
    """The exercise of the chapter; step 1 is the one that is looked at, and more steps repeat it."""

    def __init__(self, context: LoopContext) -> None:
        assert isinstance(context.options, Options)
        self.context = context
        self.options = context.options
        self.loaded = load(self.options, context.device)
        self.model, self.tokenizer = self.loaded.model, self.loaded.tokenizer
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.options.learning_rate, weight_decay=self.options.weight_decay
        )
        self.record: dict[str, Any] = {}
        context.note("model", self.loaded.label)

    def steps(self) -> Iterator[Step]:
        """Yield one update after another; the first leaves its record in the report."""
        try:
            while True:
                # 1. Before any training: which token does the model think comes next?
                generation = most_likely_next(self.model, self.tokenizer, self.options.prompt, self.context.device)

                # 2. Text becomes ids. The end-of-text token is part of the lesson: the model must learn to stop.
                text = self.tokenizer(self.options.text, add_special_tokens=False)["input_ids"]
                ids = torch.tensor([[*text, self.loaded.end_of_text]], device=self.context.device)  # (1, T)

                # 3. Forget the gradient of the step before: backward adds to what .grad holds, so an old one would
                # count again. In the first step there is none.
                self.optimizer.zero_grad()

                # 4. Forward. Hooks keep what flows into and out of one layer, for the check in 7.
                layer = self.loaded.followed
                watched = Watched(layer)
                with self.context.phase("forward"):
                    logits = self.model(input_ids=ids).logits[0]  # (T, V)

                # 5. Loss: minus the logarithm of the probability that the softmax of the logits gives to the target.
                # Position t predicts token t + 1, so the last logits and the first id have no partner.
                targets = ids[0, 1:]  # (T - 1,)
                with self.context.phase("loss"):
                    losses = cross_entropy(logits[:-1], targets, reduction="none")  # (T - 1,)
                    loss = losses.mean()

                # 6. Backward fills .grad and moves no weight. The fingerprints cover every weight of the model.
                row, column = self.options.element
                before, fingerprint = layer.weight[row, column].item(), self.weights()
                with self.context.phase("backward"):
                    loss.backward()
                after_backward, unchanged = layer.weight[row, column].item(), self.weights() == fingerprint

                # 7. What autograd did in that layer, done by hand. X goes in and Y = X W^T comes out, so the gradients
                # of the loss are dW = dY^T X and dX = dY W. A layer small enough for paper is in toy.py.
                by_hand = watched.compare()
                assert layer.weight.grad is not None
                gradient = layer.weight.grad[row, column].item()

                # 8. Clip. The limit is infinite: the norm is measured, nothing is scaled, as in the published exercise.
                with self.context.phase("clip"):
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), max_norm=math.inf)

                # 9. Before the weights move, the library's own loss for the same weights. It shifts by itself when it
                # is given labels; shifting a second time would predict two tokens ahead.
                library_loss = self.library_loss(ids)

                # 10. Update. AdamW keeps two running means for each weight: m of the gradient, v of its square. Both
                # start at 0, so after the first step they are too small, m 10 and v 1,000 times. AdamW makes up for
                # that, and then w <- w - rate * decay * w - rate * m / (sqrt(v) + 1e-8).
                with self.context.phase("optimizer"):
                    self.optimizer.step()
                moments = self.optimizer.state[layer.weight]
                after_update = layer.weight[row, column].item()

                # 11. The step is done. What was seen of the first one is kept for the report.
                self.record = self.record or {
                    **self.loaded.description,
                    "generation": generation,
                    "ids": ids[0].tolist(),
                    "positions": each_position(
                        ids[0].tolist(), logits.detach(), losses.detach(), self.tokenizer, self.options.top
                    ),
                    "loss": {"by_hand": loss.item(), "library": library_loss.item()},
                    "weights_unchanged_by_backward": unchanged,
                    "layer": by_hand,
                    "weight": {
                        "element": [row, column],
                        "before": before,
                        "gradient": gradient,
                        "after_backward": after_backward,
                        "after_update": after_update,
                        "m": moments["exp_avg"][row, column].item(),
                        "v": moments["exp_avg_sq"][row, column].item(),
                        "learning_rate": self.options.learning_rate,
                        "weight_decay": self.options.weight_decay,
                    },
                    "toy_layer": toy_layer(),
                }
                yield Step(
                    loss=loss.detach(),
                    targets=len(targets),
                    gradient_norm=norm.detach(),
                    tokens=ids.numel(),
                    learning_rate=self.options.learning_rate,
                    values={"tracked_weight": after_update},
                )
        finally:
            # The worker closes this generator after the last step, so the clock counts no drawing.
            self.publish()

    def library_loss(self, ids: Tensor) -> Tensor:
        """The mean loss as the library computes it inside the model."""
        with torch.no_grad():
            loss: Tensor = self.model(input_ids=ids, labels=ids).loss
        return loss

    def evaluate(self) -> Evaluation | None:
        """One sentence has nothing held back."""
        return None

    def publish(self) -> None:
        """Leave the first step's record as JSON, and two figures for the report."""
        if not self.record:
            return
        folder, model = self.context.folder, self.loaded.label
        write_bytes(folder / "chapter01.json", (json.dumps(self.record, indent=2, ensure_ascii=False) + "\n").encode())
        draw_positions(self.record["positions"], model, folder / "chapter01-positions.svg")
        draw_weight(self.record["weight"], model, folder / "chapter01-weight.svg")
        self.context.add_artifact(folder / "chapter01-positions.svg", "figure", "What each position predicts")
        self.context.add_artifact(folder / "chapter01-weight.svg", "figure", "One weight through one step")
        self.context.add_artifact(folder / "chapter01.json", "json", "Every number of the step")

    def state_dict(self) -> dict[str, object]:
        """Weights, moments and the record of the first step."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "record": self.record}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on at the step after the one that was saved."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.record = state["record"]

    def weights(self) -> str:
        """SHA-256 (hex) of the model's weights."""
        return weights(self.model)
