"""What chapter 2 lets an experiment choose."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt, field_validator


class Options(BaseModel):
    """Texts of very different lengths make micro-batches of very different target counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    reads: ClassVar[tuple[str, ...]] = ()

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
