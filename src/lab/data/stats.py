"""What a prepared data set looks like: counts, document lengths, and how full its packs become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lab.data.documents import SPLITS
from lab.data.packing import Sampler
from lab.data.segments import Segments

if TYPE_CHECKING:
    import numpy.typing as npt

    from lab.data.cache import Split, TokenCache
    from lab.data.tokenizer import Tokenizer
    from lab.experiment.sections import Batch

PERCENTILES = (0, 5, 25, 50, 75, 95, 100)
PACKS_TRIED = 2000
HEAD_TOKENS = 24


@dataclass(frozen=True)
class Packing:
    """How training packs the segments."""

    context: int
    capacity: int
    buffer: int
    seed: int

    @classmethod
    def of(cls, context: int, batch: Batch | None, seed: int) -> Packing:
        """The packing that an experiment's batch section asks for; packs of `context` when it has none."""
        tokens = batch.tokens if batch and batch.tokens else context
        return cls(context, tokens, batch.buffer if batch else 64, seed)


def stats(cache: TokenCache, packing: Packing) -> dict[str, Any]:
    """What data-stats.json says."""
    manifest = cache.manifest
    return {
        "schema": 1,
        "identity": cache.identity,
        "counters": manifest["counters"],
        "rejections": manifest["rejections"],
        "warnings": manifest["warnings"],
        "splits": {
            name: {**manifest["splits"][name], **_described(cache.split(name), packing.context)} for name in SPLITS
        },
        "packing": fill(cache.split("train"), packing),
    }


def fill(split: Split, packing: Packing) -> dict[str, Any]:
    """How full the first packs of training are, over one epoch at most."""
    sampler = Sampler(
        split, context=packing.context, capacity=packing.capacity, buffer=packing.buffer, seed=packing.seed
    )
    packs: list[list[int]] = []
    while len(packs) < PACKS_TRIED:
        lengths = sampler.next_pack_lengths()
        if sampler.epoch:
            break
        packs.append(lengths)
    held = sum(map(sum, packs))
    return {
        "context": packing.context,
        "capacity": packing.capacity,
        "buffer": packing.buffer,
        "packs": len(packs),
        "segments_per_pack": sum(map(len, packs)) / len(packs),
        "fill": held / (len(packs) * packing.capacity),
    }


def first_documents(cache: TokenCache, tokenizer: Tokenizer, count: int = 3) -> list[dict[str, Any]]:
    """How the first documents of each split begin."""
    heads = []
    for name in SPLITS:
        split = cache.split(name)
        for number in range(min(count, len(split))):
            tokens = split.document(number)
            heads.append({"split": name, "tokens": len(tokens), "head": tokenizer.decode(tokens[:HEAD_TOKENS])})
    return heads


def histogram(lengths: npt.NDArray[np.int64]) -> list[dict[str, int]]:
    """How many documents have 2-3, 4-7, 8-15, ... tokens, from the first such range that has any to the last."""
    powers = np.log2(lengths).astype(np.int64)
    counts = np.bincount(powers).tolist()
    return [
        {"from": 2**power, "to": 2 ** (power + 1) - 1, "documents": count}
        for power, count in enumerate(counts)
        if power >= powers.min()
    ]


def _described(split: Split, context: int) -> dict[str, Any]:
    lengths = split.lengths
    values = np.percentile(lengths, PERCENTILES, method="inverted_cdf").tolist()
    return {
        "lengths": dict(zip((f"p{rank}" for rank in PERCENTILES), map(int, values), strict=True)),
        "mean_length": float(lengths.mean()),
        "longer_than_context": int((lengths - 1 > context).sum()),
        "segments": len(Segments(lengths, context)),
        "histogram": histogram(lengths),
    }
