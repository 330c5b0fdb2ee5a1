"""The order in which an epoch visits its items: a seeded permutation that depends on no library's random stream.

Few items are sorted by hashes. Many are permuted where they are needed, by a Feistel network over the next power of
four that is walked until the result is an item: nothing is stored, and an epoch of any size starts at once.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Words = npt.NDArray[np.uint64]

ROUNDS = 8
FEW = 1024  # a network over fewer makes some orders likelier than others


class Order:
    """A permutation of `count` items for each epoch; the identity when not shuffled."""

    def __init__(self, count: int, seed: int, shuffle: bool) -> None:
        self.count, self.seed, self.shuffle = count, seed, shuffle
        self._half = np.uint64(((count - 1).bit_length() + 1) // 2)
        self._mask = (np.uint64(1) << self._half) - np.uint64(1)

    def __len__(self) -> int:
        """How many items an epoch visits."""
        return self.count

    def at(self, epoch: int, positions: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The items that stand at these positions of this epoch."""
        if not self.shuffle:
            return positions
        keys = self._keys(epoch)
        if self.count <= FEW:
            return np.argsort(_mixed(np.arange(self.count, dtype=np.uint64) ^ keys[0]), kind="stable")[positions]
        items = positions.astype(np.uint64)
        outside = np.arange(len(items))
        while len(outside):
            items[outside] = self._permuted(items[outside], keys)
            outside = outside[items[outside] >= self.count]
        return items.astype(np.int64)

    def _keys(self, epoch: int) -> Words:
        digest = b"".join(
            hashlib.sha256(f"order:{self.seed}:{epoch}:{number}".encode()).digest()[:8] for number in range(ROUNDS)
        )
        return np.frombuffer(digest, dtype="<u8").astype(np.uint64)

    def _permuted(self, items: Words, keys: Words) -> Words:
        left, right = items >> self._half, items & self._mask
        for key in keys:
            left, right = right, left ^ (_mixed(right ^ key) & self._mask)
        return (left << self._half) | right


def _mixed(values: Words) -> Words:
    """Spread each bit over all 64: the finaliser of SplitMix64."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))
