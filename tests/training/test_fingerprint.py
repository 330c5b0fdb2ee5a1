"""Fingerprints: equal exactly when what they stand for is equal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from fakes import TokenDocuments
from torch import nn

from lab.data.packing import Sampler
from lab.training import fingerprint


def batches(documents, count=4):
    sampler = Sampler(TokenDocuments(documents), context=8, capacity=8, buffer=1, shuffle=False)
    return [sampler.next_batch() for _ in range(count)]


def rolling(made):
    digests, digest = [], fingerprint.EMPTY
    for batch in made:
        digest = fingerprint.fed(digest, [batch])
        digests.append(digest)
    return digests


DOCUMENTS = [list(range(start, start + 9)) for start in range(0, 90, 9)]


def test_one_flipped_token_changes_the_fingerprint_from_its_step_on_and_not_before():
    flipped = [list(document) for document in DOCUMENTS]
    flipped[2][4] ^= 1

    before, after = rolling(batches(DOCUMENTS)), rolling(batches(flipped))

    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, False]


def test_a_moved_segment_start_changes_the_fingerprint_of_the_same_tokens():
    batch = batches(DOCUMENTS, 1)[0]
    cut = replace(batch, cu_seqlens=np.array([0, 3, 8], dtype=np.int32), max_seqlen=5)

    assert fingerprint.fed(fingerprint.EMPTY, [batch]) != fingerprint.fed(fingerprint.EMPTY, [cut])


def test_rolling_step_by_step_equals_rolling_at_once():
    made = batches(DOCUMENTS)

    assert rolling(made)[-1] == fingerprint.fed(fingerprint.EMPTY, made)


def test_weights_do_not_depend_on_the_order_in_which_modules_were_made():
    torch.manual_seed(0)
    first, second = nn.Linear(2, 3), nn.Linear(2, 3)

    one = nn.ModuleDict({"a": first, "b": second})
    other = nn.ModuleDict({"b": second, "a": first})

    assert fingerprint.weights(one) == fingerprint.weights(other)


def test_weights_differ_by_value_name_shape_and_type():
    def module(name="a", shape=(2, 3), dtype=torch.float32, value=0.0):
        return nn.ParameterDict({name: nn.Parameter(torch.full(shape, value, dtype=dtype))})

    different = [
        module(), module(value=-0.0), module(name="b"), module(shape=(3, 2)), module(dtype=torch.bfloat16),
    ]  # fmt: skip

    assert len({fingerprint.weights(one) for one in different}) == len(different)


def test_memory_under_a_second_name_counts_once():
    tied = nn.Module()
    tied.embedding = nn.Embedding(4, 2)
    alone = fingerprint.weights(tied)

    tied.head = nn.Linear(2, 4, bias=False)
    tied.head.weight = tied.embedding.weight

    assert fingerprint.weights(tied) == alone


def test_the_scope_is_what_was_left_out_and_what_the_clock_reads():
    own = fingerprint.scope(2, [5, 6], "perf_counter")

    assert own == fingerprint.scope(2, {6, 5}, "perf_counter")
    others = [fingerprint.scope(1, [5, 6], "perf_counter"), fingerprint.scope(2, [], "perf_counter")]
    others.append(fingerprint.scope(2, [5, 6], "CUDA events"))
    assert len({own, *others}) == 4
