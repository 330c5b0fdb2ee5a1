from __future__ import annotations

import os

import pytest

from lab.report.blocks import Table, Text
from lab.report.comma_separated import ROWS, table


@pytest.fixture
def file(tmp_path):
    return tmp_path / "left.csv"


def test_headings_rows_and_columns_of_numbers(file):
    file.write_text('step,word,loss\n1,"a, b",2.5\n2,c,nan\n')

    shown = table(file, "What was heard")

    assert shown == Table(
        "What was heard", ["step", "word", "loss"], [["1", "a, b", "2.5"], ["2", "c", "nan"]], ["step", "loss"],
        "left.csv, 2 rows", folded=True,
    )  # fmt: skip


def test_rows_of_another_length_keep_the_shape(file):
    file.write_text("a,b\n1\n1,2,3\n")

    assert table(file, "x").rows == [["1", ""], ["1", "2"]]


def test_of_a_long_file_the_first_rows_are_shown(file):
    file.write_text("a\n" + "1\n" * (ROWS + 5000))

    shown = table(file, "x")

    assert (len(shown.rows), shown.note) == (ROWS, "left.csv, the first 200 of 5,200 rows")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "is empty"), (b"a\n\xff\n", "is not a readable table"), (b"a\n", "has no rows")]
)
def test_what_is_no_table_is_said(file, content, said):
    file.write_bytes(content)

    shown = table(file, "x")

    assert isinstance(shown, Text)
    assert said in shown.text


def test_a_table_of_gigabytes_is_named_and_not_read(file):
    file.touch()
    os.truncate(file, 30 << 30)

    assert table(file, "x") == Text("x: left.csv, 30.00 GiB, is not shown inside the page.")
