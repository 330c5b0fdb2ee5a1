"""Work ahead: in order, bounded, with errors where they belong."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.data.ahead import CHUNK_WEIGHT, ahead

HEAVY = CHUNK_WEIGHT  # each item is a chunk of its own


@given(st.lists(st.integers()), st.integers(1, 5), st.sampled_from([1, CHUNK_WEIGHT // 3, HEAVY]))
def test_results_come_in_order(items, threads, weight):
    assert list(ahead(items, lambda item: item * 2, lambda _: weight, threads)) == [item * 2 for item in items]


@pytest.mark.parametrize("threads", [1, 2])
def test_an_error_of_the_items_comes_after_all_results_before_it(threads):
    def broken():
        yield from range(5)
        raise ConnectionError("cut")

    results = ahead(broken(), str, lambda _: HEAVY, threads)

    assert [next(results) for _ in range(5)] == list("01234")
    with pytest.raises(ConnectionError, match="cut"):
        next(results)


def test_an_error_of_the_work_is_raised_in_its_turn():
    results = ahead([1, 0, 1], lambda item: 1 // item, lambda _: HEAVY, 2)

    assert next(results) == 1
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_only_a_few_chunks_are_read_ahead_and_no_thread_stays():
    read = []

    def endless():
        while True:
            read.append(1)
            yield 1

    results = ahead(endless(), str, lambda _: HEAVY, 3)
    next(results)
    results.close()

    assert len(read) == 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("ahead")]
