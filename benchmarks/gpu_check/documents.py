"""Synthetic documents with the length distribution of the baseline's corpus, as a token cache.

Lengths are lognormal (median 403, sigma 1.05): cut at 4,096 their sum of squares a token is 1,603 where FineWeb's was
1,612, so attention has the same share of the work. Token ids fall off like words do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lab.contracts import Document
from lab.data.prepare import prepare
from lab.experiment.sections import Data

if TYPE_CHECKING:
    from pathlib import Path

    from sizes import Sizes

MEDIAN, SIGMA = 403, 1.05


class Lengths:
    """A source whose texts say how long each document is; the tokenizer makes the tokens."""

    def __init__(self, sizes: Sizes) -> None:
        scale = sizes.context / 4096
        drawn = np.random.default_rng(20261003).lognormal(np.log(MEDIAN * scale), SIGMA, sizes.documents)
        self.lengths = np.maximum(2, drawn.astype(int))

    def identity(self):
        return {"name": "synthetic", "median": MEDIAN, "sigma": SIGMA, "documents": len(self.lengths)}

    def documents(self, cursor=None):
        for number, length in enumerate(self.lengths):
            yield Document(f"{number} {length}", {"number": number})


class Drawn:
    """Stands for a tokenizer: "7 300" becomes 300 tokens drawn for document 7."""

    name, revision = "synthetic", "1"

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary, self.eos = vocabulary, vocabulary - 1
        self.sha256 = f"{vocabulary:064x}"

    def encode(self, text):
        number, length = map(int, text.split())
        uniform = np.random.default_rng(number).random(length - 1)
        return ((self.vocabulary - 1) ** uniform - 1).astype(np.uint32)

    def token_bytes(self):
        return np.full(self.vocabulary, 4, dtype=np.uint16)

    def record(self):
        return {key: getattr(self, key) for key in ("name", "revision", "sha256", "vocabulary", "eos")}


def cache(sizes: Sizes, store: Path) -> Path:
    """The folder of the token cache."""
    data = Data(
        source="synthetic", context=sizes.context, train_tokens=sizes.train_tokens,
        validation_tokens=sizes.validation_tokens, max_documents=sizes.documents,
    )  # fmt: skip
    return prepare(data, Lengths(sizes), store, tokenizer=Drawn(sizes.vocabulary)).folder
