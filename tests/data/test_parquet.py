"""Parquet rows as texts: any row on, nulls and bad bytes by place, columns that are not text by name."""

from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lab.data.parquet import rows
from lab.errors import LabError


@pytest.fixture
def written(tmp_path):
    def write(column, name="text", row_group_size=3):
        path = tmp_path / "a.parquet"
        pq.write_table(pa.table({name: column, "id": list(range(len(column)))}), path, row_group_size=row_group_size)
        return path

    return write


def texts(path, column="text", group=0, row=0):
    return [row.text for row in rows(path, path.name, column, group, row)]


def test_rows_come_in_order_from_all_groups(written):
    path = written([f"t{number}" for number in range(8)])

    assert texts(path) == [f"t{number}" for number in range(8)]


def test_reading_goes_on_after_any_row(written):
    path = written([f"t{number}" for number in range(8)])

    for read, row in enumerate(list(rows(path, "a", "text")), start=1):
        assert texts(path, group=row.group, row=row.row) == [f"t{number}" for number in range(read, 8)]


def test_more_rows_than_are_read_at_once_can_be_passed(written):
    path = written([str(number) for number in range(1000)], row_group_size=1000)

    assert texts(path, row=997) == ["997", "998", "999"]


def test_an_open_file_is_read_as_well(written):
    path = written(["one", "two"])

    with path.open("rb") as file:
        assert [row.text for row in rows(file, "a", "text")] == ["one", "two"]


def test_leaving_early_closes_the_file(written):
    path = written([str(number) for number in range(1000)])
    reading = rows(path, "a", "text")

    first = next(reading)
    reading.close()

    assert first.text == "0"
    assert list(reading) == []


def test_a_null_is_rejected_by_its_place(written):
    found = list(rows(written(["one", "two", "three", None, "five"]), "a.parquet", "text"))

    assert [row.rejected for row in found] == [None, None, None, "a.parquet row group 1 row 1: 'text' is null", None]


def test_bytes_that_are_not_utf8_are_rejected_by_their_place(written):
    bad = pa.Array.from_buffers(
        pa.string(), 2, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"\xff\xfeok")]
    )

    found = list(rows(written(bad), "a.parquet", "text"))

    assert [row.text for row in found] == ["", "ok"]
    assert found[0].rejected == "a.parquet row group 0 row 1: is not UTF-8: invalid start byte at byte 0"


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
)
def test_every_kind_of_string_column_is_text(written, kind):
    assert texts(written(pa.array(["one", "two"]).cast(kind))) == ["one", "two"]


def test_a_missing_column_suggests_the_nearest(written):
    with pytest.raises(LabError, match=r"a\.parquet: has no column 'txt'") as missing:
        texts(written(["one"]), column="txt")

    assert missing.value.do == "Did you mean 'text'?"


def test_a_column_of_numbers_is_not_text(written):
    with pytest.raises(LabError, match="column 'id' holds int64, not text"):
        texts(written(["one"]), column="id")


def test_a_column_of_lists_of_strings_is_not_text(tmp_path):
    path = tmp_path / "lists.parquet"
    pq.write_table(pa.table({"text": [["one"], ["two"]]}), path)

    with pytest.raises(LabError, match=r"column 'text' holds list<.*>, not text"):
        texts(path)


def test_a_file_that_is_not_parquet_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(b"not parquet at all")

    with pytest.raises(LabError, match=r"a\.parquet: cannot be read as Parquet"):
        texts(path)


def test_a_file_cut_short_is_named(written):
    path = written([str(number) * 100 for number in range(1000)])
    path.write_bytes(path.read_bytes()[:-100])

    with pytest.raises(LabError, match=r"a\.parquet: cannot be read as Parquet"):
        texts(path)


def flip_in(path, group, column=0):
    """Flip a few bytes in the middle of a column's data pages."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(column)
    content = bytearray(path.read_bytes())
    middle = chunk.data_page_offset + chunk.total_compressed_size // 2
    for place in range(middle, middle + 8):
        content[place] ^= 0xFF
    path.write_bytes(content)


@pytest.mark.parametrize("remote", [False, True], ids=["a file of this machine", "an open file"])
@pytest.mark.parametrize(
    "how", [{"compression": "snappy"}, {"compression": "none", "write_page_checksum": True}], ids=["packed", "checked"]
)
def test_a_damaged_page_is_named_by_file_and_row_group_after_what_stands_before_it(tmp_path, how, remote):
    path = tmp_path / "a.parquet"
    column = [f"text {number} " * 9 for number in range(90)]
    pq.write_table(pa.table({"text": column}), path, row_group_size=30, use_dictionary=False, **how)
    flip_in(path, group=1)
    found = []

    with path.open("rb") as file, pytest.raises(LabError, match=r"^a\.parquet row group 1: cannot be read") as damaged:
        found += (row.text for row in rows(file if remote else path, path.name, "text"))

    assert found == column[:30]
    assert "Get the file again" in damaged.value.do
    assert "\n" not in damaged.value.what


def test_a_damaged_footer_is_named_too(written):
    path = written([str(number) for number in range(1000)])
    content = bytearray(path.read_bytes())
    content[-40:-20] = bytes(20)
    content[-(8 + int.from_bytes(content[-8:-4], "little"))] = 0xFF
    path.write_bytes(content)

    with pytest.raises(LabError, match=r"a\.parquet: cannot be read as Parquet"):
        texts(path)


def test_a_connection_that_breaks_off_is_no_damage(written):
    class Broken(io.BytesIO):
        broken = False

        def read(self, size=-1):
            if self.broken:
                raise ConnectionResetError("reset by peer")
            return super().read(size)

    file = Broken(written([str(number) for number in range(6)]).read_bytes())
    reading = rows(file, "a.parquet", "text")
    next(reading)
    file.broken = True

    with pytest.raises(ConnectionResetError):
        list(reading)
