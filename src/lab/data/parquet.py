"""Texts out of a Parquet file, row by row from any row on: for files of this machine and of a hub alike.

`ParquetFile.iter_batches` may be left early; the data set readers of pyarrow and datasets then hang at exit. A Python
file object is read by whole row groups, mirrored in memory.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lab.data.mirror import Mirror
from lab.errors import LabError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

ROWS_AT_ONCE = 256  # long documents: more would hold many megabytes of text at a time


@dataclass(frozen=True)
class Row:
    """One row's text, or why it has none, and the place after it."""

    text: str
    rejected: str | None
    group: int
    row: int
    """Rows of the group that are passed once this one is."""


def rows(file: Path | BinaryIO, name: str, column: str, group: int = 0, row: int = 0) -> Iterator[Row]:
    """Yield the rows after the first `row` of row group `group`.

    Raises `LabError` for a file without such a column, and for a damaged one, naming the row group. What an open file
    raises itself is passed on: that is a connection, which may come back.
    """
    _, parquet = _pyarrow()
    mirror = None if isinstance(file, Path) else Mirror(file)
    with ExitStack() as stack:
        with _named(name):
            # Checks the checksum of each page that has one: a flipped byte of plain text is seen by nothing else.
            source = file if mirror is None else mirror.buffer
            opened = stack.enter_context(parquet.ParquetFile(source, page_checksum_verification=True))
            schema = opened.schema_arrow
        _check_column(schema, name, column)
        for number in range(group, opened.num_row_groups):
            passed = row if number == group else 0
            yield from _group_rows(_columns(opened, column, number, mirror, name), name, column, number, passed)


@contextmanager
def _named(name: str, group: int | None = None) -> Iterator[None]:
    """Say which file, and which row group of it, Arrow failed to read: a damaged page is an `OSError` of its own."""
    pyarrow, _ = _pyarrow()
    where = name if group is None else f"{name} row group {group}"
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise LabError(
            f"{where}: cannot be read as Parquet: {' '.join(str(error).split())}",
            "Get the file again from where it came from, write it anew, or leave it out of data.source.",
        ) from error


def _group_rows(columns: Iterator[Any], name: str, column: str, group: int, passed: int) -> Iterator[Row]:
    row = 0
    for values in columns:
        if row + len(values) <= passed:
            row += len(values)
            continue
        for value in values:
            row += 1
            if row > passed:
                text, fault = _text(value, column)
                rejected = fault and f"{name} row group {group} row {row}: {fault}"
                yield Row(text, rejected, group, row)


def _columns(opened: Any, column: str, group: int, mirror: Mirror | None, name: str) -> Iterator[Any]:
    if mirror is not None:
        mirror.fetch(opened.metadata.row_group(group), column)
        with _named(name, group):
            whole = opened.read_row_group(group, columns=[column], use_threads=False).column(0)
        yield whole
        return
    with _named(name, group):
        batches = opened.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=[column], use_threads=False)
    while True:
        with _named(name, group):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch.column(0)


def _text(value: Any, column: str) -> tuple[str, str | None]:
    try:
        text = value.as_py()
    except UnicodeDecodeError as error:
        return "", f"is not UTF-8: {error.reason} at byte {error.start}"
    return (text, None) if text is not None else ("", f"'{column}' is null")


def _check_column(schema: Any, name: str, column: str) -> None:
    if column not in schema.names:
        raise LabError(f"{name}: has no column '{column}'.", did_you_mean(column, schema.names))
    kind = schema.field(column).type
    if str(kind).startswith("dictionary"):  # of strings: that is text; a list has a value type too, and is none
        kind = kind.value_type
    if str(kind) not in ("string", "large_string", "string_view"):
        raise LabError(f"{name}: column '{column}' holds {kind}, not text.", "Name the column that holds the text.")


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise LabError("Reading Parquet needs pyarrow.", "Install it: pip install 'llm-training-lab[hub]'") from error
    return pyarrow, pyarrow.parquet
