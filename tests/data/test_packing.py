"""Best-fit packing: the baseline's examples, a plain reference, and a state that resumes anywhere."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys

import numpy as np
import pytest
from fakes import TokenDocuments
from hypothesis import given
from hypothesis import strategies as st

from lab.data.packing import PackedBatch, Sampler
from lab.data.segments import Segments
from lab.errors import LabError


def documents_of(*inputs):
    """Documents of as many inputs, each of tokens of its own: 100, 101, ... in the first, 200, ... in the second."""
    return TokenDocuments([[100 * (n + 1) + at for at in range(length + 1)] for n, length in enumerate(inputs)])


def in_order(split, **options):
    return Sampler(split, **{"context": 8, "capacity": 8, "shuffle": False, **options})


def one_epoch(sampler):
    packs = []
    while True:
        batch = sampler.next_batch()
        if sampler.epoch:
            return packs
        packs.append(np.diff(batch.cu_seqlens).tolist())


def test_the_baselines_example_packs_a_with_d_and_b_with_c():
    batch = in_order(documents_of(6, 4, 3, 2), packs=2).next_batch()

    assert batch.cu_seqlens.tolist() == [0, 6, 8, 12, 15]
    assert batch.pack_lengths == (8, 7)
    assert batch.tokens.tolist() == [*range(100, 106), 400, 401, *range(200, 204), 300, 301, 302]
    assert batch.targets.tolist() == [*range(101, 107), 401, 402, *range(201, 205), 301, 302, 303]
    assert batch.positions.tolist() == [0, 1, 2, 3, 4, 5, 0, 1, 0, 1, 2, 3, 0, 1, 2]
    assert batch.max_seqlen == 6


def test_pairs_never_cross_from_one_document_to_the_next():
    end = 99
    batch = in_order(TokenDocuments([[1, 2, end], [7, 8, 9, end]])).next_batch()

    pairs = set(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True))

    assert pairs == {(1, 2), (2, end), (7, 8), (8, 9), (9, end)}
    assert len(batch.targets) == 5


def test_each_document_gives_its_end_of_text_as_a_target_once():
    end = 9
    batch = in_order(TokenDocuments([[1, end], [2, 3, end], [4, 5, 6, end]])).next_batch()

    assert batch.targets.tolist().count(end) == 3


@pytest.mark.parametrize("restored", [False, True])
def test_a_batch_is_int32_and_contiguous_throughout(restored):
    sampler = in_order(documents_of(3, 2), packs=2)
    if restored:
        sampler.load_state_dict(json.loads(json.dumps(sampler.state_dict())))

    batch = sampler.next_batch()

    for array in (batch.tokens, batch.targets, batch.positions, batch.cu_seqlens):
        assert array.dtype == np.int32
        assert array.flags.c_contiguous
        assert array.flags.writeable
    assert type(batch.max_seqlen) is int
    assert {type(length) for length in batch.pack_lengths} == {int}


def test_large_token_ids_arrive_whole():
    batch = in_order(TokenDocuments([[70_000, 151_935, 65_536]])).next_batch()

    assert batch.tokens.tolist() == [70_000, 151_935]
    assert batch.targets.tolist() == [151_935, 65_536]


def test_no_segment_is_ever_empty():
    """An empty document, one of its end alone, and two of one token before it."""
    split = TokenDocuments([[], [99], [5, 99], [], [99], [6, 99]])

    batch = in_order(split).next_batch()

    assert batch.cu_seqlens.tolist() == [0, 1, 2]
    assert (batch.tokens.tolist(), batch.targets.tolist()) == ([5, 6], [99, 99])
    assert batch.max_seqlen == 1
    assert type(batch.max_seqlen) is int


def test_documents_beyond_the_capacity_are_trained_on_whole():
    split = TokenDocuments([[0] * 3, [0] * 4096, [0] * 4097, [0] * 10_000])

    packs = one_epoch(Sampler(split, context=4096, capacity=4096, seed=1))

    assert sum(map(sum, packs)) == 2 + 4095 + 4096 + 9999 == 18_192


@pytest.mark.parametrize(("buffer", "packs"), [(64, [[8, 1], [6, 3]]), (2, [[8], [6, 3, 1]]), (1, [[8], [6, 3, 1]])])
def test_the_longest_candidate_in_the_buffer_that_fits_is_taken(buffer, packs):
    sampler = in_order(documents_of(8, 6, 3, 1), context=10, capacity=10, buffer=buffer)

    assert one_epoch(sampler) == packs


def test_the_earliest_of_equally_long_candidates_is_taken():
    batch = in_order(documents_of(2, 3, 2, 3, 2), packs=1, capacity=8).next_batch()

    assert batch.tokens.tolist() == [200, 201, 202, 400, 401, 402, 100, 101]


def test_an_epoch_ends_before_the_next_begins_even_within_a_batch():
    batch = in_order(documents_of(6, 5), packs=3).next_batch()

    assert batch.pack_lengths == (6, 5, 6)


def reference_packs(lengths, capacity, buffer):
    """The rule as it is told: look at each candidate, take the longest that fits and came first."""
    stream, waiting, packs = list(lengths), [], []
    while stream or waiting:
        pack, space = [], capacity
        while True:
            while stream and len(waiting) < buffer:
                waiting.append(stream.pop(0))
            fitting = [length for length in waiting if length <= space]
            if not fitting:
                break
            waiting.remove(max(fitting))  # the first of equals
            pack.append(max(fitting))
            space -= max(fitting)
        packs.append(pack)
    return packs


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=40),
    st.integers(1, 12),
    st.integers(0, 12),
    st.integers(1, 9),
)
def test_packing_equals_the_rule_as_it_is_told(inputs, context, more, buffer):
    split = documents_of(*inputs)
    lengths = Segments(split.lengths, context).lengths().tolist()

    packs = one_epoch(in_order(split, context=context, capacity=context + more, buffer=buffer))

    assert packs == reference_packs(lengths, context + more, buffer)


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(1, 9), st.integers(1, 3), st.integers(0, 5))
def test_an_epoch_feeds_every_pair_once(inputs, context, packs, seed):
    split = TokenDocuments([[n] * length + [1000 + n] for n, length in enumerate(inputs)])
    sampler = Sampler(split, context=context, capacity=context + 3, packs=packs, buffer=4, seed=seed)
    fed = 0

    while fed < sum(inputs):
        batch = sampler.next_batch()
        held = 0
        for length in batch.pack_lengths:
            fed += length if fed < sum(inputs) else 0
            held += length
        assert max(batch.pack_lengths) <= sampler.capacity
        assert held == len(batch.tokens)
        assert np.array_equal(batch.tokens % 1000, batch.targets % 1000)

    assert fed == sum(inputs)


STATES = {"before the first": 0, "in the middle": 3, "exactly at the end": 5, "in the second epoch": 8}


@pytest.mark.parametrize("batches", STATES.values(), ids=STATES.keys())
def test_a_restored_sampler_goes_on_with_the_same_batches(batches):
    split = documents_of(*[3] * 10)
    sampler = Sampler(split, context=4, capacity=6, buffer=3, seed=5)
    for _ in range(batches):
        sampler.next_batch()

    state = json.loads(json.dumps(sampler.state_dict()))
    restored = Sampler(split, context=4, capacity=6, buffer=3, seed=5)
    restored.load_state_dict(state)

    for _ in range(7):
        one, other = sampler.next_batch(), restored.next_batch()
        assert one.tokens.tolist() == other.tokens.tolist()
        assert one.cu_seqlens.tolist() == other.cu_seqlens.tolist()
    assert sampler.epoch == restored.epoch


def test_the_state_at_an_epochs_end_is_still_of_that_epoch():
    sampler = Sampler(documents_of(*[3] * 10), context=4, capacity=6, buffer=3, seed=5)
    for _ in range(5):
        sampler.next_batch()

    state = sampler.state_dict()

    assert (state["epoch"], state["cursor"], state["waiting"]) == (0, 10, [])


@given(st.integers(0, 60), st.integers(1, 3), st.integers(1, 7))
def test_a_state_taken_anywhere_restores_what_follows(batches, packs, buffer):
    split = documents_of(*range(1, 24))
    options = {"context": 5, "capacity": 9, "packs": packs, "buffer": buffer, "seed": 3}
    sampler = Sampler(split, **options)
    for _ in range(batches):
        sampler.next_batch()
    restored = Sampler(split, **options)

    restored.load_state_dict(sampler.state_dict())

    assert restored.next_batch().tokens.tolist() == sampler.next_batch().tokens.tolist()


@pytest.mark.parametrize(
    ("change", "key"),
    [({"context": 3}, "context"), ({"seed": 6}, "seed"), ({"buffer": 4}, "buffer"), ({"packs": 2}, "packs")],
)
def test_a_state_of_other_settings_is_refused_by_name(change, key):
    split = documents_of(*[3] * 10)
    options = {"context": 4, "capacity": 6, "buffer": 3, "seed": 5}
    state = Sampler(split, **options).state_dict()

    with pytest.raises(LabError, match=f"saved sampler has {key} "):
        Sampler(split, **{**options, **change}).load_state_dict(state)


def test_a_state_of_other_data_is_refused():
    state = in_order(documents_of(3, 3)).state_dict()

    with pytest.raises(LabError, match="pairs 6, this one has 7"):
        in_order(documents_of(3, 4)).load_state_dict(state)


def test_epochs_differ_and_hold_the_same_segments():
    sampler = Sampler(documents_of(*range(1, 9)), context=8, capacity=8, buffer=1, seed=1)

    packs = [sampler.next_batch().tokens.tolist() for _ in range(40)]
    first_again = Sampler(documents_of(*range(1, 9)), context=8, capacity=8, buffer=1, seed=1).next_batch()

    assert len({tuple(pack) for pack in packs}) > 8
    assert first_again.tokens.tolist() == packs[0]


def test_a_rebuilt_unshuffled_sampler_sees_the_same_batches():
    split = documents_of(*range(1, 9))

    one, other = ([in_order(split, buffer=3).next_batch().tokens.tolist() for _ in range(3)] for _ in range(2))

    assert one == other


ORDER_OF_EQUALS = """
import hashlib, numpy as np
from lab.data.packing import Sampler
class Split: lengths = np.full(1000, 8); tokens = np.arange(8000, dtype=np.uint32)
sampler = Sampler(Split, context=8, capacity=16, packs=4, seed=9)
print(hashlib.sha256(b"".join(sampler.next_batch().tokens.tobytes() for _ in range(150))).hexdigest())
"""


def test_equally_long_segments_come_in_the_same_order_in_every_process():
    split = TokenDocuments([range(8 * n, 8 * n + 8) for n in range(1000)])
    sampler = Sampler(split, context=8, capacity=16, packs=4, seed=9)

    here = hashlib.sha256(b"".join(sampler.next_batch().tokens.tobytes() for _ in range(150))).hexdigest()
    there = subprocess.run([sys.executable, "-c", ORDER_OF_EQUALS], capture_output=True, text=True, check=True).stdout

    assert there.strip() == here


def test_an_empty_split_is_refused():
    with pytest.raises(LabError, match="no pair"):
        in_order(TokenDocuments([[99]]))


def test_a_pack_that_cannot_hold_a_segment_is_refused():
    with pytest.raises(ValueError, match="cannot hold"):
        Sampler(documents_of(3), context=8, capacity=4)


def batch_of(total, cu_seqlens, max_seqlen, kind=np.int32):
    ints = np.zeros(total, dtype=np.int32)
    return PackedBatch(ints, ints, ints, np.array(cu_seqlens, dtype=kind), max_seqlen, (total,))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ((10, [0, 3, 8], 5), "from 0 to 8, but there are 10 tokens"),
        ((10, [0, 3, 5, 10], 2), "max_seqlen is 2, but the longest segment has 5"),
        ((10, [0, 3, 3, 10], 7), "rise strictly"),
        ((10, [1, 3, 10], 7), "from 1 to 10"),
        ((10, [0, 3, 5, 10], 5, np.int64), "int32, not int64"),
        ((0, [0], 0), "rise strictly"),
    ],
)
def test_offsets_that_do_not_fit_the_tokens_are_refused(wrong, reason):
    with pytest.raises(ValueError, match=reason):
        batch_of(*wrong)


def test_offsets_that_fit_are_taken():
    assert batch_of(10, [0, 3, 5, 10], 5).max_seqlen == 5
