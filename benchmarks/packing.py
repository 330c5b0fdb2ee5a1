"""Packing speed, fill, and cost per batch against the size of the corpus: `python benchmarks/packing.py`.

The corpus is synthetic and log-normal (median 403 tokens, sigma 1.05), which has the attention load of the published
run. The sizes are measured in turn, several times over, and the median round of each is printed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import dataclass

import numpy as np

from lab.data.packing import Sampler

CONTEXT = CAPACITY = 4096
BUFFER = 64
PACKS = 35
ROUNDS = 5
BATCHES = 60


@dataclass(frozen=True)
class Corpus:
    """Documents of random tokens with log-normal lengths."""

    lengths: np.ndarray
    tokens: np.ndarray

    @classmethod
    def drawn(cls, documents, seed=1):
        draw = np.random.default_rng(seed)
        lengths = np.maximum(2, np.exp(draw.normal(np.log(403), 1.05, documents)).round()).astype(np.int64)
        return cls(lengths, draw.integers(0, 50_257, lengths.sum(), dtype=np.uint32))


def sampler_of(corpus, packs=PACKS):
    return Sampler(corpus, context=CONTEXT, capacity=CAPACITY, packs=packs, buffer=BUFFER, seed=1)


def epoch_fill(corpus):
    """Fill of every pack of one epoch, its last included."""
    sampler, held, packs = sampler_of(corpus, packs=1), 0, 0
    while True:
        lengths = sampler.next_pack_lengths()
        if sampler.epoch:
            return held / (packs * CAPACITY)
        held, packs = held + sum(lengths), packs + 1


def round_of(sampler):
    """Seconds and tokens of some batches in a row."""
    start, tokens = time.perf_counter(), 0
    for _ in range(BATCHES):
        tokens += len(sampler.next_batch().tokens)
    return time.perf_counter() - start, tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, nargs="+", default=[2_000, 20_000, 200_000])
    sizes = parser.parse_args().documents
    samplers, seconds, rates = {}, {size: [] for size in sizes}, {size: [] for size in sizes}
    print(f"log-normal corpora, context and capacity {CAPACITY}, {BUFFER} candidates, {PACKS} packs a batch")
    for size in sizes:
        corpus = Corpus.drawn(size)
        start = time.perf_counter()
        samplers[size] = sampler_of(corpus)
        built = time.perf_counter() - start
        fill = f"{epoch_fill(corpus):.2%} full over one epoch"
        print(f"{size:>9,} documents, {corpus.lengths.sum():>12,} tokens: {fill}; built in {built * 1e3:.1f} ms")
    for _ in range(ROUNDS):
        for size in sizes:
            took, tokens = round_of(samplers[size])
            seconds[size].append(took / BATCHES)
            rates[size].append(tokens / took)
    smallest = statistics.median(seconds[sizes[0]])
    for size in sizes:
        batch, rate = statistics.median(seconds[size]), statistics.median(rates[size])
        ratio = f"{batch / smallest:.2f} x the smallest corpus"
        print(f"{size:>9,} documents: {batch * 1e3:.2f} ms a batch ({ratio}), {rate / 1e6:.0f} million tokens/s")


if __name__ == "__main__":
    main()
