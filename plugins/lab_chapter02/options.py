"""What chapter 2 lets an experiment choose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, field_validator

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.experiment import Experiment

UNREAD = ("attention", "loss", "data", "model", "batch", "optimizer", "evaluate")
"""What other loops read: here it would change nothing."""


class Options(BaseModel):
    """Texts of very different lengths make micro-batches of very different target counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    micro_batches: tuple[tuple[str, ...], ...] = Field(
        default=(
            ("No.",),
            ("One change at a time, or you learn nothing.", "Measure first."),
            (
                "A mean over micro-batches gives a short text the weight of a long one, so each of its few tokens"
                " pulls harder than it should.",
                "A sum over tokens, divided once by how many there are, treats every token alike.",
            ),
        ),
        min_length=1,
    )
    """The texts of each micro-batch; a text of n bytes gives n - 1 targets."""
    width: PositiveInt = 32
    learning_rate: Annotated[FiniteFloat, Field(gt=0)] = 0.01
    clip: Annotated[FiniteFloat, Field(gt=0)] = 1.0

    @field_validator("micro_batches")
    @classmethod
    def _every_micro_batch_has_a_target(cls, value: tuple[tuple[str, ...], ...]) -> tuple[tuple[str, ...], ...]:
        for number, texts in enumerate(value, start=1):
            if not any(len(text.encode("utf-8", "replace")) > 1 for text in texts):
                raise ValueError(f"micro-batch {number} has no text of two bytes or more, so nothing to predict")
        return value


def refuse_what_is_not_read(experiment: Experiment) -> None:
    """Raise `UsageError` for a setting without effect: it would count as a change, and records would claim it."""
    unread = [name for name in UNREAD if getattr(experiment, name) is not None]
    train = experiment.train
    if train is not None:
        unread += [f"train.{name}" for name in ("compile", "prefetch") if getattr(train, name)]
        unread += ["train.precision"] if train.precision != "fp32" else []
    if unread:
        raise UsageError(
            f"The loop 'chapter02' does not read {', '.join(unread)}.",
            'Leave that out, with train.precision = "fp32". `lab plugins --options` lists what the loop can be told.',
        )
