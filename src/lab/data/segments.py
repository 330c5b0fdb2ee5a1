"""Documents of tokens become segments: at most `context` inputs each, with one token of lookahead for the targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Integers = npt.NDArray[np.int64]


class Segments:
    """Every segment of documents that lie back to back, numbered in their order, located without listing them.

    N tokens are N-1 pairs of input and target, so a document of one token has no segment, and none is ever empty.
    """

    def __init__(self, document_lengths: Integers, context: int) -> None:
        if context < 1:
            raise ValueError(f"context {context} holds no input")
        lengths = np.asarray(document_lengths, dtype=np.int64)
        self.context = context
        self._pairs = np.maximum(lengths - 1, 0)
        self._offsets = np.cumsum(lengths) - lengths
        self._first = np.concatenate(([0], np.cumsum(-(-self._pairs // context))))

    def __len__(self) -> int:
        """How many segments there are."""
        return int(self._first[-1])

    @property
    def pairs(self) -> int:
        """How many pairs of input and target all segments hold together."""
        return int(self._pairs.sum())

    def locate(self, numbers: Integers) -> tuple[Integers, Integers]:
        """Where the first input of each numbered segment lies among all tokens, and how many inputs it has."""
        documents = np.searchsorted(self._first, numbers, side="right") - 1
        passed = (numbers - self._first[documents]) * self.context
        return self._offsets[documents] + passed, np.minimum(self._pairs[documents] - passed, self.context)

    def lengths(self) -> Integers:
        """How many inputs each segment has, for all of them."""
        return self.locate(np.arange(len(self)))[1]
