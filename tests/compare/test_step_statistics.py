from __future__ import annotations

import random
from itertools import accumulate

import pytest

from lab.compare.statistics import block_length, correlation_time, rate, rate_interval


def correlated(count: int, share: float, seed: int) -> list[float]:
    draw = random.Random(seed)
    noise = (draw.gauss(0, 1) for _ in range(count))
    return [1 + 0.03 * value for value in accumulate(noise, lambda before, new: share * before + new)]


def test_a_rate_is_a_ratio_of_sums_and_not_a_mean_of_rates() -> None:
    assert rate([100, 100], [1, 3]) == 50


@pytest.mark.parametrize(("amounts", "seconds"), [([], []), ([1.0], [0.0]), ([float("nan")], [1.0])])
def test_a_rate_that_cannot_be_known_is_none(amounts: list[float], seconds: list[float]) -> None:
    assert rate(amounts, seconds) is None


def test_an_interval_holds_the_rate_it_is_of() -> None:
    seconds = correlated(400, 0.0, seed=1)

    interval = rate_interval([1000.0] * 400, seconds)

    assert interval is not None
    assert interval.low < rate([1000.0] * 400, seconds) < interval.high


def test_an_interval_is_the_same_each_time() -> None:
    seconds = correlated(100, 0.5, seed=2)

    assert rate_interval([1.0] * 100, seconds) == rate_interval([1.0] * 100, seconds)


def test_too_few_steps_have_no_interval() -> None:
    assert rate_interval([1.0] * 39, [1.0] * 39) is None


def test_correlated_steps_get_longer_blocks_and_wider_intervals() -> None:
    free, tied = correlated(2000, 0.0, seed=3), correlated(2000, 0.9, seed=3)

    narrow, wide = rate_interval([1.0] * 2000, free), rate_interval([1.0] * 2000, tied)

    assert block_length(free) < 10 < block_length(tied)
    assert narrow is not None
    assert wide is not None
    assert wide.high - wide.low > 3 * (narrow.high - narrow.low)


def test_blocks_never_leave_fewer_than_twenty() -> None:
    assert block_length([float(step) for step in range(200)]) == 10


def test_correlation_time_of_a_known_process_is_found() -> None:
    assert correlation_time(correlated(20_000, 0.6, seed=4), 1000) == pytest.approx(4.0, rel=0.15)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    hits = 0
    for seed in range(60):
        seconds = correlated(400, 0.6, seed=seed)
        interval = rate_interval([1.0] * 400, seconds)
        assert interval is not None
        hits += interval.low <= 1.0 <= interval.high

    assert hits >= 50
