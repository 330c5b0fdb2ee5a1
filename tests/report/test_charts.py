"""What stands in a chart's place for whoever does not see it."""

from __future__ import annotations

import pytest

from lab.report.charts import TABLE_ROWS, Chart, Series


def chart(*lengths: int) -> Chart:
    series = [Series(f"{n} values", list(range(1, n + 1)), [float(y) for y in range(1, n + 1)]) for n in lengths]
    return Chart("c", "C", "step", "loss", tuple(series), x_format="tokens", y_format="tokens")


@pytest.mark.parametrize("lengths", [(1,), (2,), (6, 3), (TABLE_ROWS,), (8, 8, 8)])
def test_few_values_are_all_listed(lengths):
    few = chart(*lengths)

    assert [(row[1], row[0]) for row in few.table()] == [
        (f"{n} values", str(place)) for n in lengths for place in range(1, n + 1)
    ]
    assert few.listing == ""


@pytest.mark.parametrize("length", [TABLE_ROWS + 1, 40, 999])
def test_of_many_values_the_first_and_the_last_are_listed_and_it_is_said_how_many(length):
    many = chart(length)
    places = [int(row[0]) for row in many.table()]

    assert (places[0], places[-1], len(places)) == (1, length, TABLE_ROWS)
    assert f"at most {TABLE_ROWS} of each" in many.listing
