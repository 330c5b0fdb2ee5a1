"""Each chapter asks, lets its reader predict, runs and answers; and its code is found again."""

from __future__ import annotations

import re

import pytest
from documents import REPOSITORY, blocks

CHAPTERS = sorted(path.name.removeprefix("lab_") for path in (REPOSITORY / "plugins").glob("lab_chapter*"))
PARTS = ["Question", "Prediction", "Run", "Answer", "The code as published"]


def readme(chapter):
    return (REPOSITORY / "plugins" / f"lab_{chapter}" / "README.md").read_text(encoding="utf-8")


def part(chapter, name):
    return readme(chapter).partition(f"**{name}.**")[2].partition("\n**")[0]


def test_there_are_chapters():
    assert CHAPTERS[:2] == ["chapter01", "chapter02"]


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_asks_predicts_runs_and_answers_in_this_order(chapter):
    assert re.findall(r"^\*\*(.+?)\.\*\*", readme(chapter), re.MULTILINE) == PARTS
    assert part(chapter, "Question").strip().endswith("?")


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_every_prediction_has_its_answer(chapter):
    asked, answered = (re.findall(r"^(\d)\. ", part(chapter, name), re.MULTILINE) for name in ("Prediction", "Answer"))

    assert asked == answered == [str(number) for number in range(1, len(asked) + 1)]
    assert len(asked) >= 2


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_what_runs_is_the_chapters_experiment_without_a_mark(chapter):
    name = f"plugins/lab_{chapter}/README.md"

    assert next(iter(blocks(name))).text == f"lab run {chapter}\n"
    assert all(block.runs for block in blocks(name))
    assert (REPOSITORY / "experiments" / f"{chapter}.toml").is_file()


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_page_of_chapters_leads_to_it_and_it_names_its_tags(chapter):
    page = (REPOSITORY / "docs" / "chapters.md").read_text(encoding="utf-8")

    assert f"(../plugins/lab_{chapter}/README.md)" in page
    assert {f"`{chapter}-v1`", f"`{chapter}-v2`"} <= set(re.findall(r"`[^`]+`", part(chapter, PARTS[-1])))
    assert "docs/chapters.md" in part(chapter, PARTS[-1])
