from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from sample_runs import write

from lab.compare import facts
from lab.compare.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = "sample-20261201-0916-bbbb"
NO_FILES: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
}
RECORDS = ("metrics", "stages", "artifacts", "summary", "environment", "provenance", "data_manifest", "cost")


@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
@pytest.mark.parametrize("name", RECORDS)
def test_what_is_no_file_is_named_and_the_comparison_still_made(
    name: str, make: Callable[[Path], None], tmp_path: Path
) -> None:
    whole, hostile = write(tmp_path / ".runs"), write(tmp_path / ".runs", id=OTHER)
    place: Path = getattr(hostile, name)
    place.unlink(missing_ok=True)
    make(place)

    found = facts.read(hostile)

    assert found.unreadable == (place.name,)
    assert found.torn == 0
    assert len(compare([facts.read(whole), found]).pairs) == 1
