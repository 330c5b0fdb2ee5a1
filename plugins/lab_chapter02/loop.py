"""Chapter 2, one step from top to bottom: what accumulating gradients may and may not average.

A step here sees several micro-batches that hold unequal numbers of targets. Their gradients can be put together in two
ways. Only one of them gives the gradient of the whole batch, and this file computes all three side by side:

    reference   one backward over the whole batch at once
    right       sum every target's loss, divide once by the number of all targets
    wrong       average each micro-batch, then average the averages

Only the right gradient is ever applied. Legend of shapes: T targets of one micro-batch, V = 256 byte values.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from lab.contracts import Evaluation, LoopContext, Step
from lab.runs.records import write_bytes
from lab.training.fingerprint import weights
from lab_chapter02.figure import draw
from lab_chapter02.options import Options

if TYPE_CHECKING:
    from collections.abc import Iterator

BYTES = 256


class UnequalMicroBatches:
    """A next-byte model small enough that each gradient can be computed three times in every step."""

    def __init__(self, context: LoopContext) -> None:
        assert isinstance(context.options, Options)
        self.context = context
        self.options = context.options
        torch.manual_seed(context.experiment.seed)
        width = self.options.width
        self.model = nn.Sequential(
            nn.Embedding(BYTES, width), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, BYTES)
        )
        self.model.to(context.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.options.learning_rate)
        self.micro_batches = [pairs(texts, context.device) for texts in self.options.micro_batches]
        self.targets = sum(len(targets) for _, targets in self.micro_batches)
        self.history: list[dict[str, float]] = []

    def steps(self) -> Iterator[Step]:
        """Yield optimizer updates; each compares the three gradients before it applies the right one."""
        try:
            while True:
                # What the step must reproduce, and the tempting way to do it. Neither touches .grad.
                reference = self.gradient_of_the_whole_batch()
                wrong_loss, wrong = self.mean_of_means()

                # The step itself, in its order. First, forget the gradient of the step before.
                self.optimizer.zero_grad()
                loss_sum = torch.zeros((), device=self.context.device)
                for inputs, targets in self.micro_batches:
                    with self.context.phase("forward"):
                        logits = self.model(inputs)  # (T, V)
                    with self.context.phase("loss"):
                        loss = cross_entropy(logits, targets, reduction="sum")
                    # backward adds to .grad: after the last micro-batch it holds the gradient of the summed loss.
                    with self.context.phase("backward"):
                        loss.backward()
                    loss_sum += loss.detach()

                # One division for the whole step. Dividing inside the loop would need the targets still to come.
                for parameter in self.model.parameters():
                    assert parameter.grad is not None
                    parameter.grad /= self.targets
                right = flat([parameter.grad for parameter in self.model.parameters() if parameter.grad is not None])

                # Clipping comes after the division: it must see the size of the real gradient.
                with self.context.phase("clip"):
                    norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.options.clip)
                with self.context.phase("optimizer"):
                    self.optimizer.step()

                line = {
                    "wrong_loss": wrong_loss,
                    "right_gradient_error": distance(right, reference),
                    "wrong_gradient_error": distance(wrong, reference),
                    "wrong_gradient_cosine": float(torch.cosine_similarity(wrong, reference, dim=0)),
                }
                self.history.append({"loss": float(loss_sum / self.targets), **line})
                yield Step(
                    loss=loss_sum / self.targets,
                    targets=self.targets,
                    gradient_norm=norm,
                    tokens=self.targets,
                    micro_batches=len(self.micro_batches),
                    learning_rate=self.options.learning_rate,
                    values=line,
                )
        finally:
            # The worker closes this generator after the last step, so the clock counts no drawing.
            self.publish()

    def gradient_of_the_whole_batch(self) -> Tensor:
        """What accumulation must reproduce: every text in one batch, one mean over all its targets."""
        inputs = torch.cat([inputs for inputs, _ in self.micro_batches])
        targets = torch.cat([targets for _, targets in self.micro_batches])
        loss = cross_entropy(self.model(inputs), targets)
        return flat(torch.autograd.grad(loss, list(self.model.parameters())))

    def mean_of_means(self) -> tuple[float, Tensor]:
        """The wrong way: three letters in a micro-batch of their own weigh as much as two hundred in another.

        In a loop that accumulates it reads `(cross_entropy(logits, targets) / micro_batches).backward()`.
        """
        losses = [cross_entropy(self.model(inputs), targets) for inputs, targets in self.micro_batches]
        loss = torch.stack(losses).mean()
        return float(loss.detach()), flat(torch.autograd.grad(loss, list(self.model.parameters())))

    def evaluate(self) -> Evaluation | None:
        """This chapter looks at gradients; it holds nothing back to evaluate on."""
        return None

    def publish(self) -> None:
        """Leave the figures of every step so far as JSON, and a picture for the report."""
        if not self.history:
            return
        counts = [len(targets) for _, targets in self.micro_batches]
        # JSON knows no NaN: a figure of a run that went astray is null.
        steps = [
            {name: figure if math.isfinite(figure) else None for name, figure in line.items()} for line in self.history
        ]
        record = {"schema": 1, "targets_of_each_micro_batch": counts, "steps": steps}
        path, picture = self.context.folder / "chapter02.json", self.context.folder / "chapter02.svg"
        write_bytes(path, (json.dumps(record, indent=2) + "\n").encode())
        draw(self.history, counts, picture)
        self.context.add_artifact(picture, "figure", "A mean of means is not the gradient of the batch")
        self.context.add_artifact(path, "json", "Three gradients of each step, compared")

    def state_dict(self) -> dict[str, object]:
        """Weights, moments, and the figures so far."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "history": [dict(line) for line in self.history],
        }

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Go on at the step after the one that was saved."""
        self.model.load_state_dict(state["model"])  # type: ignore[arg-type]  # a mapping of tensors, as saved
        self.optimizer.load_state_dict(state["optimizer"])  # type: ignore[arg-type]  # as saved
        self.history = [dict(line) for line in state["history"]]  # type: ignore[attr-defined]  # as saved

    def weights(self) -> str:
        """SHA-256 (hex) of the model's weights."""
        return weights(self.model)


def pairs(texts: tuple[str, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Bytes and their successors, (T,) each; no pair joins the end of one text to the start of the next."""
    inputs, targets = [], []
    for text in texts:
        values = list(text.encode("utf-8", "replace"))
        inputs += values[:-1]
        targets += values[1:]
    return torch.tensor(inputs, device=device), torch.tensor(targets, device=device)


def flat(gradients: list[Tensor] | tuple[Tensor, ...]) -> Tensor:
    """All gradients as one vector, copied, so that later clipping does not change what is compared."""
    return torch.cat([gradient.detach().clone().reshape(-1) for gradient in gradients])


def distance(gradient: Tensor, reference: Tensor) -> float:
    """Relative L2 distance from the reference."""
    return float((gradient - reference).norm() / reference.norm())
