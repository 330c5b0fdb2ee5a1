"""One of a thing is called by its singular, in whatever a person reads of a run of one step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from sample_runs import write

from lab.compare.formats import counted
from lab.report.page import run_page
from lab.runs.directory import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST, SECOND = "sample-20261201-0915-aaaa", "sample-20261201-0916-bbbb"
PLURAL = re.compile(r"(?<![\d.,/])1 (?:[a-z]+ )?(?:\w*[a-rt-z])s\b(?! is\b)")
NO_NOUNS = ("1 is", "1 was", "1 has")


@pytest.fixture
def runs(project: Path) -> Path:
    """Two runs of one step, of which the second lost what came after it."""
    for run, torn in ((FIRST, 0), (SECOND, 1)):
        write(project / ".runs", id=run, steps=1, warmup=0, every=1, torn=torn, code={"src/lab/worker/a.py": run})
    return project / ".runs"


def test_a_count_and_its_noun_agree() -> None:
    assert [counted(count, "step") for count in (0, 1, 2, 1200)] == ["0 steps", "1 step", "2 steps", "1,200 steps"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("compare", FIRST, SECOND),
        ("compare", FIRST, SECOND, "--md"),
        ("runs", "show", SECOND),
        ("runs", "rm", FIRST, "--dry-run"),
        ("runs",),
    ],
    ids=" ".join,
)
def test_one_of_a_thing_is_no_plural_in_the_terminal(arguments: tuple[str, ...], runs: Path, lab: Callable) -> None:
    said = lab(*arguments)

    assert said.code == 0
    assert plurals(said.out + said.err) == []


def test_one_of_a_thing_is_no_plural_on_a_page(runs: Path) -> None:
    from lab.compare import facts

    text = run_page(facts.read(RunDirectory(runs / SECOND))).html().partition("<script")[0]

    assert plurals(re.sub(r"<(style|svg).*?</\1>|<[^>]+>", " ", text, flags=re.DOTALL)) == []


def plurals(text: str) -> list[str]:
    return [found for found in PLURAL.findall(text) if found not in NO_NOUNS]
