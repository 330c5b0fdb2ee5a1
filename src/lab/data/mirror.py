"""A remote Parquet file's bytes in memory, at the places where they stand in the file, as far as they were asked for.

Arrow reads row groups on threads of its own. One that still holds a Python object when the process ends aborts it (one
early stop in forty), so Arrow gets plain memory instead of the Python file: address space as long as the file, of which
only the footer and one column of one row group are ever filled.
"""

from __future__ import annotations

import mmap
from collections import deque
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import BinaryIO

MAGIC = b"PAR1"
TAIL = 2**16
"""Bytes first read from the end; most footers are shorter."""
ENDING = 8
"""The footer's length in four bytes, and the magic."""
_recent: deque[Any] = deque(maxlen=2)
"""Keeps the last buffers alive beyond their readers, so that no thread of Arrow's ever releases one."""


class Mirror:
    """Filled by `fetch`; `buffer` is what Arrow reads."""

    def __init__(self, file: BinaryIO) -> None:
        import pyarrow

        self._file = file
        self.size = file.seek(0, 2)
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self.memory = mmap.mmap(-1, max(self.size, ENDING), **private)
        self.buffer = pyarrow.BufferReader(self.memory)
        _recent.append(self.buffer)
        self._filled: tuple[int, int] | None = None
        self._copy(0, min(len(MAGIC), self.size))
        tail = self._copy(max(0, self.size - TAIL), self.size)
        footer = int.from_bytes(tail[-ENDING : -len(MAGIC)], "little") + ENDING
        if tail.endswith(MAGIC) and len(tail) < footer <= self.size:
            self._copy(self.size - footer, self.size - len(tail))

    def fetch(self, group: Any, column: str) -> None:
        """Fill in one column of a row group (its metadata as pyarrow gives it), in place of the one before."""
        self._forget()
        for index in range(group.num_columns):
            chunk = group.column(index)
            if chunk.path_in_schema.split(".")[0] == column:
                starts = [chunk.data_page_offset, chunk.dictionary_page_offset if chunk.has_dictionary_page else None]
                start = min(offset for offset in starts if offset is not None)
                end = min(start + chunk.total_compressed_size, self.size)
                self._copy(start, end)
                self._filled = start, end

    def _copy(self, start: int, end: int) -> bytes:
        self._file.seek(start)
        content = self._file.read(end - start)
        if len(content) != end - start:
            raise OSError(f"{len(content)} bytes came where {end - start} were asked for, from byte {start} on")
        self.memory[start:end] = content
        return content

    def _forget(self) -> None:
        if self._filled is not None and hasattr(mmap, "MADV_DONTNEED"):
            start, end = (-(-place // mmap.PAGESIZE) * mmap.PAGESIZE for place in self._filled)
            end -= mmap.PAGESIZE  # the last page may hold what follows
            if end > start:
                self.memory.madvise(mmap.MADV_DONTNEED, start, end - start)
        self._filled = None
