"""A CSV file that a loop or an observer left, as a table of the page."""

from __future__ import annotations

import csv
from itertools import islice
from typing import TYPE_CHECKING

from lab.compare import formats
from lab.report.blocks import Table, Text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lab.report.blocks import Block

ROWS = 200
LARGEST_BYTES = 64 * 2**20
"""Reading a larger one would take longer than the rest of the page."""


def table(path: Path, title: str) -> Block:
    """Its first row names the columns; of a long file the first rows are shown."""
    size = path.stat().st_size
    if size > LARGEST_BYTES:
        return Text(f"{title}: {path.name}, {formats.size(size)}, is not shown inside the page.")
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.reader(file)
            columns = next(reader, [])
            rows = [_fitted(row, len(columns)) for row in islice(reader, ROWS)]
            more = sum(1 for _ in reader)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return Text(f"{title}: {path.name} is not a readable table: {error}")
    if not columns:
        return Text(f"{title}: {path.name} is empty.")
    if not rows:
        return Text(f"{title}: {path.name} names columns and has no rows.")
    right = [name for place, name in enumerate(columns) if all(_is_number(row[place]) for row in rows)]
    count = formats.counted(len(rows) + more, "row")
    shown = f"the first {len(rows)} of {count}" if more else count
    return Table(title, columns, rows, right, f"{path.name}, {shown}", folded=True)


def _fitted(row: Sequence[str], width: int) -> list[str]:
    return [*row, *[""] * width][:width]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
