"""Preparation against tiktoken's encoding alone, and peak memory against size: `python benchmarks/prepare.py`.

Both encode the same embedded text, in turn, several times over, and the best round of each is compared. Peak memory is
measured in a process of its own for each size, on endless distinct documents made from the embedded paragraphs.
"""

from __future__ import annotations

import argparse
import itertools
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.contracts import Document
from lab.data.prepare import prepare
from lab.data.tokenizer import load
from lab.experiment.sections import Data, Tokenizer
from lab_embedded.source import EmbeddedText

ROUNDS = 15
PARAGRAPHS_PER_DOCUMENT = 8


class Texts:
    """Any iterable of texts as a source."""

    def __init__(self, texts):
        self.texts = texts

    def identity(self):
        return {"name": "benchmark"}

    def documents(self, cursor=None):
        for number, text in enumerate(self.texts):
            yield Document(text, {"number": number})


def wanted(tokens):
    return Data(source="benchmark", train_tokens=tokens, validation_tokens=tokens // 20, max_documents=10**9)


def paragraphs():
    return [part for document in EmbeddedText().documents() for part in document.text.split("\n\n")]


def endless():
    """Distinct documents without end, some hundreds of tokens each."""
    draw, parts = random.Random(1), paragraphs()
    for number in itertools.count():
        yield f"{number}\n" + "\n\n".join(draw.choices(parts, k=PARAGRAPHS_PER_DOCUMENT))


def prepared(texts, tokens, tokenizer, store):
    cache = prepare(wanted(tokens), Texts(texts), Path(tempfile.mkdtemp(dir=store)), tokenizer=tokenizer)
    return sum(split["tokens"] for split in cache.manifest["splits"].values())


def encoded(texts, tokenizer):
    """tiktoken alone, on the same texts."""
    return sum(len(tokenizer._encoding.encode_to_numpy(text, disallowed_special=())) for text in texts)


def timed(work):
    """Wall and CPU seconds for each token."""
    wall, cpu = time.perf_counter(), time.process_time()
    tokens = work()
    return (time.perf_counter() - wall) / tokens, (time.process_time() - cpu) / tokens


def compare(name, texts, tokenizer):
    """The best round of each: a busy machine only ever adds time."""
    encoded(texts, tokenizer)
    alone, whole = [], []
    with tempfile.TemporaryDirectory() as store:
        for _ in range(ROUNDS):
            alone.append(timed(lambda: encoded(texts, tokenizer)))
            whole.append(timed(lambda: prepared(texts, 10**9, tokenizer, store)))
    (alone_wall, alone_cpu), (wall, cpu) = (map(min, zip(*rounds, strict=True)) for rounds in (alone, whole))
    ratios = f"{alone_wall / wall:.2f} of tiktoken alone by the clock, {alone_cpu / cpu:.2f} by CPU time"
    print(f"{name}: {1e-6 / wall:.2f} million tokens/s, {ratios} (best of {ROUNDS} rounds)")


def peak(tokens):
    """Peak memory of this process after one preparation, printed for the parent."""
    with tempfile.TemporaryDirectory() as store:
        prepared(endless(), tokens, load(Tokenizer()), store)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2_000_000, 20_000_000])
    chosen = parser.parse_args()
    if chosen.peak:
        peak(chosen.peak)
        return
    tokenizer = load(Tokenizer())
    documents = [document.text for document in EmbeddedText().documents()]
    compare(f"{len(documents):,} whole documents", documents, tokenizer)
    short = list(itertools.islice(endless(), 4000))
    compare(f"{len(short):,} documents of {PARAGRAPHS_PER_DOCUMENT} paragraphs", short, tokenizer)
    for tokens in chosen.tokens:
        command = [sys.executable, __file__, "--peak", str(tokens)]
        peak_bytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        print(f"{tokens:>12,} tokens: peak memory {peak_bytes / 2**20:.0f} MiB")


if __name__ == "__main__":
    main()
