"""Batches on the device: offsets that fit, and rows that only fill a shape count nowhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fakes import TokenDocuments

from lab.data.packing import PackedBatch, Sampler
from lab.training.batch import Shape, move

CPU = torch.device("cpu")


def batch(lengths=(3, 2, 5), packs=(5, 5), **changes):
    total = sum(lengths)
    fields = {
        "tokens": np.arange(total, dtype=np.int32),
        "targets": np.arange(1, total + 1, dtype=np.int32),
        "positions": np.concatenate([np.arange(length, dtype=np.int32) for length in lengths]),
        "cu_seqlens": np.cumsum([0, *lengths]).astype(np.int32),
        "max_seqlen": max(lengths),
        "pack_lengths": packs,
    }
    return PackedBatch(**{**fields, **changes})


def test_offsets_positions_and_the_longest_segment_are_those_of_the_segments():
    moved = move(batch(), CPU)

    assert moved.cu_seqlens.tolist() == [0, 3, 5, 10]
    assert moved.positions.tolist() == [0, 1, 2, 0, 1, 0, 1, 2, 3, 4]
    assert moved.max_seqlen == 5
    assert isinstance(moved.max_seqlen, int)


@pytest.mark.parametrize(
    "wrong", [{"cu_seqlens": np.array([0, 3, 8], dtype=np.int32)}, {"max_seqlen": 2}], ids=["too short", "longest"]
)
def test_offsets_that_do_not_fit_are_refused_before_any_kernel(wrong):
    with pytest.raises(ValueError, match=r"cu_seqlens|max_seqlen"):
        move(batch(**wrong), CPU)


def test_offsets_stay_int32_and_contiguous_on_the_device():
    moved = move(batch(), CPU)

    assert moved.cu_seqlens.dtype == torch.int32
    assert moved.cu_seqlens.is_contiguous()
    assert moved.targets.dtype == torch.int64


def test_counts_are_known_without_asking_the_device():
    targets = np.array([1, -100, 3, 4, 5, 6, 7, 8, 9, -100], dtype=np.int32)

    moved = move(batch(targets=targets), CPU)

    assert (moved.inputs, moved.counted, moved.segments, moved.packs) == (10, 8, 3, 2)
    assert moved.squares == 9 + 4 + 25


def test_a_static_shape_is_filled_with_rows_that_count_nowhere():
    plain = batch((400, 598), (998,))

    moved = move(plain, CPU, static=Shape(1000, 700))

    assert len(moved.tokens) == 1000
    assert moved.cu_seqlens.tolist() == [0, 400, 998, 1000]
    assert moved.targets[998:].tolist() == [-100, -100]
    assert moved.max_seqlen == 700
    unfilled = move(plain, CPU)
    for count in ("inputs", "counted", "segments", "packs", "squares"):
        assert getattr(moved, count) == getattr(unfilled, count)


def test_rows_that_fill_a_shape_hide_no_end_of_text_from_the_loss_even_if_they_spell_it():
    """Padding is known by where it stands: here it is of the same token as the end of text."""
    end = 0
    documents = TokenDocuments([[*range(1, length), end] for length in (300, 400, 299)])
    packed = Sampler(documents, context=500, capacity=1000, shuffle=False).next_batch()

    moved = move(packed, CPU, static=Shape(1000, 500))

    assert len(moved.tokens) == 1000
    assert moved.tokens[996:].tolist() == [end] * 4
    assert moved.targets.tolist().count(end) == 3
    assert moved.counted == 996


def test_more_than_half_a_percent_is_never_added():
    moved = move(batch((400, 594), (994,)), CPU, static=Shape(1000, 700))

    assert len(moved.tokens) == 994


def test_a_batch_that_is_full_has_the_static_shapes_longest_segment_too():
    moved = move(batch((400, 600), (1000,)), CPU, static=Shape(1000, 700))

    assert (len(moved.tokens), moved.max_seqlen) == (1000, 700)
