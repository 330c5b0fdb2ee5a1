from __future__ import annotations

import pytest

from lab.compare import formats


@pytest.mark.parametrize(
    ("tokens_per_second", "written"),
    [(222_427.3, "222,427 tokens/s"), (10.4, "10 tokens/s"), (0.2818, "0.28 tokens/s"), (0.0, "0 tokens/s")],
)
def test_a_slow_speed_is_not_rounded_to_nothing(tokens_per_second, written):
    assert formats.speed(tokens_per_second) == written


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (0.04, "0.0 s"), (24.74, "24.7 s"), (59.94, "59.9 s"), (59.96, "1 min"), (75.2, "1 min 15 s"),
        (243.4, "4 min 3 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h"), (7500.0, "2 h 5 min"), (90_000.0, "25 h"),
        (float("nan"), "-"), (float("inf"), "-"),
    ],
)  # fmt: skip
def test_every_time_that_a_person_reads_has_one_form(seconds, written):
    assert formats.duration(seconds) == written


@pytest.mark.parametrize(("seconds", "written"), [(2.91, "3 s"), (59.4, "59 s"), (59.6, "1 min"), (61.0, "1 min 1 s")])
def test_a_time_that_is_being_counted_has_no_decimals(seconds, written):
    assert formats.duration(seconds, decimals=0) == written


@pytest.mark.parametrize(("seconds", "written"), [(0.41234, "0.4123 s"), (8.1184, "8.118 s"), (117.6, "1 min 58 s")])
def test_two_steps_of_a_few_seconds_are_told_apart_by_their_digits(seconds, written):
    assert formats.quantity(seconds, "seconds") == written


@pytest.mark.parametrize(
    ("content", "written"),
    [
        (list("abc"), "a, b, c"), (["one entry"] * 40, "one entry, one entry, one entry and 37 more"),
        ({"a": 1, "b": None}, "a: 1, b: -"), (["x" * 50, "y"], f"{'x' * 31}... and 1 more"), ([], "none"), ("x", "x"),
    ],
)  # fmt: skip
def test_of_a_long_list_a_cell_holds_the_first_entries_and_how_many_more_there_are(content, written):
    assert formats.short(content) == written
