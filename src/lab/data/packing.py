"""Segments become packed batches: best fit from a bounded buffer, in a seeded order, from any checkpoint on."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from itertools import accumulate
from operator import sub
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lab.data.order import Order
from lab.data.segments import Segments
from lab.errors import LabError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    Ints = npt.NDArray[np.int32]

State = dict[str, "int | list[int]"]
BLOCK = 1024  # candidates located at once: enough to make numpy's overhead small, few enough to restore at once


class Tokens(Protocol):
    """What is packed: documents that lie back to back in `tokens`, each `lengths[i]` long."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Tokens of each document, its end-of-text included."""
        ...

    @property
    def tokens(self) -> npt.NDArray[np.uint32]:
        """The tokens of all documents."""
        ...


@dataclass(frozen=True)
class PackedBatch:
    """One micro-batch of real tokens only. T tokens, S segments. Refuses offsets that do not fit the tokens."""

    tokens: Ints  # (T,)
    targets: Ints  # (T,)
    positions: Ints  # (T,), from 0 in each segment
    cu_seqlens: Ints  # (S+1,)
    max_seqlen: int
    pack_lengths: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.cu_seqlens.dtype != np.int32 or not self.cu_seqlens.flags.c_contiguous:
            raise ValueError(f"cu_seqlens must be contiguous int32, not {self.cu_seqlens.dtype}")
        total, offsets = len(self.tokens), self.cu_seqlens.tolist()  # Python's ints: numpy is slow on a few numbers
        lengths = list(map(sub, offsets[1:], offsets))
        if not lengths or min(lengths) < 1:
            raise ValueError("cu_seqlens must rise strictly: no segment is empty")
        if offsets[0] != 0 or offsets[-1] != total or sum(self.pack_lengths) != total:
            raise ValueError(f"cu_seqlens goes from {offsets[0]} to {offsets[-1]}, but there are {total} tokens")
        if self.max_seqlen != max(lengths):
            raise ValueError(f"max_seqlen is {self.max_seqlen}, but the longest segment has {max(lengths)} tokens")
        if len(self.targets) != total or len(self.positions) != total:
            raise ValueError(f"{len(self.targets)} targets and {len(self.positions)} positions for {total} tokens")


class Sampler:
    """Endless batches of `packs` packs of at most `capacity` tokens; a new epoch starts when no candidate remains."""

    def __init__(
        self,
        split: Tokens,
        *,
        context: int,
        capacity: int,
        packs: int = 1,
        buffer: int = 64,
        seed: int = 0,
        shuffle: bool = True,
    ) -> None:
        if capacity < context:
            raise ValueError(f"a pack of {capacity} tokens cannot hold a segment of {context}")
        if packs < 1 or buffer < 1:
            raise ValueError(f"packs {packs} and buffer {buffer} must be at least 1")
        self._segments = Segments(split.lengths, context)
        if not len(self._segments):
            raise LabError("There is no pair of tokens to sample from: the split holds no document.")
        self.capacity, self.packs, self.buffer = capacity, packs, buffer
        self.epoch = 0
        self._order = Order(len(self._segments), seed, shuffle)
        self._tokens = _as_int32(split.tokens)
        self._ramp = np.arange(context, dtype=np.int32)
        self._cursor = 0
        # Sorted by length, and among equal lengths the earliest last: the one before the insertion point is best.
        self._candidates: list[tuple[int, int, int]] = []  # (length, -position in the epoch's order, start)
        self._block: list[tuple[int, int, int]] = []
        self._block_start = 0

    def next_batch(self) -> PackedBatch:
        """The next `packs` packs."""
        starts: list[int] = []
        lengths: list[int] = []
        pack_lengths = tuple(self._fill(starts, lengths) for _ in range(self.packs))
        spans = list(zip(starts, lengths, strict=True))
        # One allocation: three would be handed back to the system, and their pages cleared again, at each batch.
        tokens, targets, positions = np.empty((3, sum(pack_lengths)), dtype=np.int32)
        np.concatenate([self._tokens[start : start + length] for start, length in spans], out=tokens)
        np.concatenate([self._tokens[start + 1 : start + 1 + length] for start, length in spans], out=targets)
        np.concatenate([self._ramp[:length] for length in lengths], out=positions)
        cu_seqlens = np.array([0, *accumulate(lengths)], dtype=np.int32)
        return PackedBatch(tokens, targets, positions, cu_seqlens, max(lengths), pack_lengths)

    def next_pack_lengths(self) -> list[int]:
        """The segment lengths of the next pack, without its tokens."""
        lengths: list[int] = []
        self._fill([], lengths)
        return lengths

    def state_dict(self) -> State:
        """Where the sampler stands, as plain numbers; loading it yields the same next batch."""
        return {
            **self._settings(),
            "epoch": self.epoch,
            "cursor": self._cursor,
            "waiting": sorted(-negative for _, negative, _ in self._candidates),
        }

    def load_state_dict(self, state: Mapping[str, object]) -> None:
        """Stand where `state` was taken. Raises `LabError` when it was taken from other data or settings."""
        for key, own in self._settings().items():
            if state.get(key) != own:
                raise LabError(
                    f"The saved sampler has {key} {state.get(key)}, this one has {own}.",
                    "Resume with the data and settings of the checkpoint.",
                )
        epoch, cursor, waiting = state.get("epoch"), state.get("cursor"), state.get("waiting")
        if not (isinstance(epoch, int) and isinstance(cursor, int) and isinstance(waiting, list)):
            raise LabError("The saved sampler lacks its epoch, cursor or waiting candidates.")
        self.epoch, self._cursor = epoch, cursor
        self._candidates = sorted(self._located(np.array(waiting, dtype=np.int64)))
        self._block, self._block_start = [], 0

    def _settings(self) -> State:
        return {
            "segments": len(self._segments),
            "pairs": self._segments.pairs,
            "context": self._segments.context,
            "capacity": self.capacity,
            "packs": self.packs,
            "buffer": self.buffer,
            "seed": self._order.seed,
            "shuffle": int(self._order.shuffle),
        }

    def _fill(self, starts: list[int], lengths: list[int]) -> int:
        """Fill one pack: the longest candidate that fits, the earliest of equals, refill, repeat."""
        if not self._refill():
            self.epoch, self._cursor, self._block, self._block_start = self.epoch + 1, 0, [], 0
            self._refill()
        candidates, space = self._candidates, self.capacity
        while (best := bisect_left(candidates, (space + 1,)) - 1) >= 0:
            length, _, start = candidates.pop(best)
            starts.append(start)
            lengths.append(length)
            space -= length
            self._refill()
        return self.capacity - space

    def _refill(self) -> bool:
        """Top the buffer up from the epoch; False when the epoch is used up."""
        candidates = self._candidates
        while len(candidates) < self.buffer and self._cursor < len(self._order):
            at = self._cursor - self._block_start
            if at >= len(self._block):
                end = min(self._cursor + BLOCK, len(self._order))
                self._block, self._block_start = self._located(np.arange(self._cursor, end)), self._cursor
                at = 0
            insort(candidates, self._block[at])
            self._cursor += 1
        return bool(candidates)

    def _located(self, positions: npt.NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """The candidates at these positions of the epoch's order."""
        starts, lengths = self._segments.locate(self._order.at(self.epoch, positions))
        return list(zip(lengths.tolist(), (-positions).tolist(), starts.tolist(), strict=True))


def _as_int32(tokens: npt.NDArray[np.uint32]) -> Ints:
    """The tokens as plain int32 without a copy where they are 32 bits wide; ids lie far below 2^31."""
    plain = np.asarray(tokens)
    return plain.view(np.int32) if plain.dtype == np.uint32 else plain.astype(np.int32)
