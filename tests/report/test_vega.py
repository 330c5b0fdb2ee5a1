"""The script that brings charts to life: made once, beside the work, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lab.report import vega

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def bundled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What was bundled, where the real bundle would take two seconds."""
    made: list[str] = []
    monkeypatch.setattr(vega, "BUNDLE", "import sys; sys.stdout.write(f'made of {sys.argv[1]}')")
    bundle = vega._bundled  # the real one runs as well, in a process of its own
    monkeypatch.setattr(vega, "_bundled", lambda: made.append(bundle()) or made[-1])
    vega._bundling.cache_clear()
    yield made
    vega._bundling.cache_clear()


def test_a_script_that_was_begun_is_bundled_once_and_kept(tmp_path: Path, bundled: list[str]) -> None:
    vega.begin(tmp_path)

    scripts = vega.runtime(tmp_path), vega.runtime(tmp_path), vega.runtime()

    assert set(scripts) == {f"made of {vega.RUNTIME}"}
    assert len(bundled) == 1
    assert [file.read_text() for file in tmp_path.rglob("vega-*.js")] == [scripts[0]]


def test_nothing_is_begun_where_the_script_is_kept(tmp_path: Path, bundled: list[str]) -> None:
    vega.runtime(tmp_path)
    vega._bundling.cache_clear()

    vega.begin(tmp_path)

    assert vega.runtime(tmp_path) == bundled[0]
    assert len(bundled) == 1
