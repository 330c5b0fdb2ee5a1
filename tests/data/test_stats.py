"""What data-stats.json says about lengths and packing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from fakes import ByteTokenizer, ListSource, TokenDocuments

from lab.data.prepare import prepare
from lab.data.stats import Packing, fill, first_documents, histogram, stats
from lab.experiment.sections import Batch, Data


@pytest.fixture
def cache(tmp_path):
    data = Data(source="list", train_tokens=10**6, validation_tokens=10**6, max_documents=100, validation_fraction=0.4)
    texts = [str(number) * length for number, length in enumerate((1, 2, 3, 4, 5, 6, 7, 8, 40))]
    return prepare(data, ListSource(texts), tmp_path, tokenizer=ByteTokenizer())


def test_lengths_are_counted_by_powers_of_two_without_gaps():
    assert histogram(np.array([2, 3, 4, 31, 33])) == [
        {"from": 2, "to": 3, "documents": 2},
        {"from": 4, "to": 7, "documents": 1},
        {"from": 8, "to": 15, "documents": 0},
        {"from": 16, "to": 31, "documents": 1},
        {"from": 32, "to": 63, "documents": 1},
    ]


def test_every_document_and_segment_is_described(cache):
    record = stats(cache, Packing(context=4, capacity=8, buffer=64, seed=1))

    for name, split in record["splits"].items():
        lengths = cache.split(name).lengths
        assert sum(row["documents"] for row in split["histogram"]) == split["documents"] == len(lengths)
        assert (split["lengths"]["p0"], split["lengths"]["p100"]) == (lengths.min(), lengths.max())
        assert split["segments"] == sum(-(-(length - 1) // 4) for length in lengths.tolist())
        assert split["longer_than_context"] == sum(length - 1 > 4 for length in lengths.tolist())
    assert json.loads(json.dumps(record)) == record


def test_percentiles_are_lengths_that_occur(cache):
    lengths = stats(cache, Packing(4, 8, 64, 1))["splits"]["train"]["lengths"]

    assert set(lengths.values()) <= set(cache.split("train").lengths.tolist())
    assert list(lengths) == ["p0", "p5", "p25", "p50", "p75", "p95", "p100"]


def test_fill_counts_the_packs_of_one_epoch():
    split = TokenDocuments([[0] * 7, [0] * 5, [0] * 4, [0] * 3])

    assert fill(split, Packing(context=8, capacity=8, buffer=64, seed=1)) == {
        "context": 8,
        "capacity": 8,
        "buffer": 64,
        "packs": 2,
        "segments_per_pack": 2.0,
        "fill": 15 / 16,
    }


def test_packing_is_that_of_the_batch():
    assert Packing.of(64, Batch(packs=35, buffer=8), 1) == Packing(64, 64, 8, 1)
    assert Packing.of(64, Batch(tokens=256), 1) == Packing(64, 256, 64, 1)
    assert Packing.of(64, None, 1) == Packing(64, 64, 64, 1)


def test_first_documents_show_how_each_split_begins(cache):
    heads = first_documents(cache, ByteTokenizer(), count=1)

    assert [head["split"] for head in heads] == ["train", "validation"]
    assert heads[0]["head"] == ByteTokenizer().decode(cache.split("train").document(0))
