"""An epoch's order: every item once, another order each epoch, the same everywhere."""

from __future__ import annotations

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from lab.data.order import Order

FIRST_EPOCH = [5, 0, 3, 6, 2, 8, 9, 7, 1, 4]
FIRST_OF_MANY = [782, 1625, 1583, 478, 122]


@pytest.mark.parametrize("count", [1, 2, 3, 255, 1024, 1025, 4096, 4097, 5000])
def test_every_item_comes_once(count):
    order = Order(count, seed=42, shuffle=True).at(3, np.arange(count))

    assert sorted(order.tolist()) == list(range(count))


def test_the_order_is_fixed_for_good():
    assert Order(10, seed=42, shuffle=True).at(0, np.arange(10)).tolist() == FIRST_EPOCH
    assert Order(2000, seed=42, shuffle=True).at(0, np.arange(5)).tolist() == FIRST_OF_MANY


def test_seeds_and_epochs_have_orders_of_their_own():
    orders = {
        tuple(Order(50, seed=seed, shuffle=True).at(epoch, np.arange(50)).tolist())
        for seed in (1, 2)
        for epoch in (0, 1)
    }

    assert len(orders) == 4


def test_a_part_of_an_order_is_that_part_of_the_whole():
    order = Order(5000, seed=1, shuffle=True)

    whole = order.at(2, np.arange(5000))

    assert order.at(2, np.array([4999, 17])).tolist() == whole[[4999, 17]].tolist()


def test_unshuffled_items_come_as_they_are():
    assert Order(5, seed=1, shuffle=False).at(7, np.arange(5)).tolist() == [0, 1, 2, 3, 4]


def test_all_orders_of_a_few_items_are_about_equally_likely():
    order = Order(4, seed=7, shuffle=True)

    seen = Counter(tuple(order.at(epoch, np.arange(4)).tolist()) for epoch in range(1200))

    expected = 1200 / 24
    chi_squared = sum((seen[each] - expected) ** 2 / expected for each in permutations(range(4)))
    assert chi_squared < 50  # 23 degrees of freedom: beyond 50 with probability 0.001


def test_neighbours_do_not_stay_neighbours():
    order = Order(100_000, seed=3, shuffle=True).at(0, np.arange(100_000)).astype(float)

    assert abs(np.corrcoef(order[:-1], order[1:])[0, 1]) < 0.02
    assert abs(np.corrcoef(order, np.arange(100_000))[0, 1]) < 0.02
