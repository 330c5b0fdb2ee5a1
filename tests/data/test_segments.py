"""Documents cut into segments: no pair lost, none repeated, none across a boundary."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.data.segments import Segments


@pytest.mark.parametrize(
    ("tokens", "context", "inputs"),
    [
        (8991, 4096, [4096, 4096, 798]),
        (9001, 4096, [4096, 4096, 808]),
        (6, 4, [4, 1]),
        (4097, 4096, [4096]),
        (4098, 4096, [4096, 1]),
        (2, 4096, [1]),
        (1, 4096, []),
    ],
)
def test_a_document_of_n_tokens_is_n_minus_one_inputs(tokens, context, inputs):
    segments = Segments(np.array([tokens]), context)

    assert segments.lengths().tolist() == inputs
    assert segments.pairs == tokens - 1 == sum(inputs)


def test_a_cut_document_looks_one_token_ahead_for_its_targets():
    tokens = np.array([11, 12, 13, 14, 15, 99])
    starts, lengths = Segments(np.array([6]), 4).locate(np.arange(2))

    inputs = [tokens[start : start + length].tolist() for start, length in zip(starts, lengths, strict=True)]
    targets = [tokens[start + 1 : start + 1 + length].tolist() for start, length in zip(starts, lengths, strict=True)]

    assert inputs == [[11, 12, 13, 14], [15]]
    assert targets == [[12, 13, 14, 15], [99]]


def test_documents_longer_than_the_context_are_cut_and_never_discarded():
    segments = Segments(np.array([3, 4096, 4097, 10_000]), 4096)

    assert segments.pairs == 18_192 == int(segments.lengths().sum())


def test_a_document_of_one_token_or_none_has_no_segment():
    segments = Segments(np.array([1, 0, 3, 1, 2, 1]), 4)

    starts, lengths = segments.locate(np.arange(len(segments)))

    assert starts.tolist() == [1, 5]
    assert lengths.tolist() == [2, 1]


@given(st.lists(st.integers(0, 30), max_size=12), st.integers(1, 9))
def test_every_pair_is_in_exactly_one_segment_of_its_document(document_lengths, context):
    segments = Segments(np.array(document_lengths, dtype=np.int64), context)
    starts, lengths = segments.locate(np.arange(len(segments)))

    covered = [at for start, length in zip(starts, lengths, strict=True) for at in range(start, start + length)]

    offsets = np.cumsum([0, *document_lengths])
    inputs = [
        at
        for offset, length in zip(offsets, document_lengths, strict=False)
        for at in range(offset, offset + length - 1)
    ]
    assert covered == inputs
    assert all(1 <= length <= context for length in lengths)
