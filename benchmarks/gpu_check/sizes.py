"""What is measured: the baseline's shapes on a GPU, and the same walk over tiny ones for a dry run on a CPU."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    context: int
    packs: int
    layers: int | None  # None keeps the shipped experiment's model
    width: int
    heads: int
    vocabulary: int
    documents: int
    train_tokens: int
    validation_tokens: int
    warmup_steps: int
    timed_steps: int
    observed_steps: int
    repeats: int
    copy_bytes: int

    @property
    def tokens(self) -> int:
        return self.context * self.packs


GPU = Sizes(
    context=4096, packs=35, layers=None, width=768, heads=12, vocabulary=50_257, documents=40_000,
    train_tokens=8_000_000, validation_tokens=100_000, warmup_steps=4, timed_steps=8, observed_steps=2,
    repeats=10, copy_bytes=2**30,
)  # fmt: skip
DRY = Sizes(
    context=64, packs=4, layers=2, width=32, heads=2, vocabulary=517, documents=400,
    train_tokens=8_000, validation_tokens=500, warmup_steps=1, timed_steps=2, observed_steps=2,
    repeats=2, copy_bytes=2**20,
)  # fmt: skip


def of(cpu: bool) -> Sizes:
    return DRY if cpu else GPU
