"""docs/measuring.md names every check and every mark that a comparison can show."""

from __future__ import annotations

import re

import pytest
from documents import REPOSITORY
from sample_runs import CPU, write

from lab.compare import facts
from lab.compare.changes import Mark
from lab.compare.comparability import checks
from lab.compare.measures import measures

PAGE = (REPOSITORY / "docs" / "measuring.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("device", [{}, {"device": CPU}], ids=["GPU", "CPU"])
def test_every_check_of_a_comparison_is_explained(tmp_path, device):
    a, b = write(tmp_path, **device), write(tmp_path, id="sample-20261201-0916-bbbb", **device)

    shown = [check.name for check in checks(facts.read(a), facts.read(b))]

    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert [name for name in shown if not any(f"`{name}`" in row for row in rows)] == []


def test_every_figure_of_a_comparison_is_explained(tmp_path):
    runs = [
        facts.read(write(tmp_path, id=f"sample-20261201-0915-{end}", sampled=True, dollars=1.0))
        for end in ("aaaa", "bbbb")
    ]

    shown = [measure.name for measure in measures(runs)]

    page = " ".join(PAGE.lower().split())
    assert {"median step", "peak reserved", "GPU power", "bits per byte", "cost"} <= set(shown)
    assert [
        name
        for name in [*shown, "others' processors"]
        if re.sub(r"^training |^validation (?=loss at)", "", name.lower()) not in page
    ] == []


def test_every_mark_is_explained():
    assert [mark for mark in Mark if f"`{mark}`" not in PAGE] == []
