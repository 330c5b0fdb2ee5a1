"""What an observer drew, inside the page: its letters fit, and it is no white field on a dark page."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest
import vl_convert
from report_browser import Chromium, chromium
from sample_runs import write

from lab.report import embedding, page
from lab.report.blocks import Image, Text
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LARGE_NUMBERS = {
    "data": {"values": [{"step": step, "bytes": 12_345_678 * step} for step in range(5)]},
    "mark": "line",
    "encoding": {"x": {"field": "step", "type": "quantitative"}, "y": {"field": "bytes", "type": "quantitative"}},
}
KNOWS_DARK = "<svg xmlns='http://www.w3.org/2000/svg'><style>@media (prefers-color-scheme: dark) {}</style></svg>"
PLAIN = "<svg xmlns='http://www.w3.org/2000/svg'><text font-family=\"sans-serif\">a</text></svg>"
WITHOUT_ROOM = """() => {
  const box = (role) => [...document.querySelectorAll(`.role-axis-${role} text`)]
    .map((one) => one.getBoundingClientRect());
  const title = box("title").find((one) => one.height > one.width);
  return box("label").filter((one) => one.left < title.right && one.right > title.left
                                      && one.top < title.bottom && one.bottom > title.top).length;
}"""
"""How many labels the upright title touches."""


def shown(picture: Image | Text) -> str:
    assert isinstance(picture, Image)
    return base64.b64decode(picture.address.partition("base64,")[2]).decode()


@pytest.mark.parametrize(
    ("name", "text", "in_the_dark"),
    [
        ("a.svg", PLAIN, "turned"),
        ("a.svg", KNOWS_DARK, "by itself"),
        ("a.png", PLAIN, "as it is"),
        ("a.JPEG", PLAIN, "as it is"),
    ],
)
def test_a_drawing_turns_dark_with_the_page_and_a_photograph_does_not(
    tmp_path: Path, name: str, text: str, in_the_dark: str
) -> None:
    (tmp_path / name).write_text(text)

    picture = embedding.block(tmp_path / name, "what it shows")

    assert isinstance(picture, Image)
    assert picture.in_the_dark == in_the_dark
    assert shown(picture) == text


def test_a_vega_drawing_asks_for_the_letters_that_it_was_measured_with(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(vl_convert.vegalite_to_svg(LARGE_NUMBERS))

    drawing = shown(embedding.block(tmp_path / "a.svg", "bytes"))

    assert 'font-family="Arial, ' in drawing
    assert 'font-family="sans-serif"' not in drawing


@pytest.mark.parametrize(("name", "size"), [("a.svg", embedding.LARGEST_BYTES + 1), ("a.pdf", 1)])
def test_what_the_page_cannot_hold_is_named(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(b" " * size)

    assert isinstance(embedding.block(tmp_path / name, "a"), Text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.mark.browser
def test_the_title_of_an_axis_touches_no_label_in_a_browser(browser: Chromium, tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(vl_convert.vegalite_to_svg(LARGE_NUMBERS))
    page = browser.browser.new_page()

    page.set_content(shown(embedding.block(tmp_path / "a.svg", "bytes")))

    assert page.evaluate(WITHOUT_ROOM) == 0
    page.close()


@pytest.mark.browser
def test_only_drawings_that_know_nothing_of_the_dark_are_turned_there(browser: Chromium, tmp_path: Path) -> None:
    run = write(tmp_path / ".runs")
    for name, text in {"plain.svg": PLAIN, "knows.svg": KNOWS_DARK}.items():
        (run.path / name).write_text(text)
        records.append_line(run.artifacts, {"path": name, "kind": "figure", "title": name})
    html, turned = page.write(run), {}

    for scheme in ("light", "dark"):
        with browser.open(html, scheme=scheme) as found:
            pictures = found.page.locator("#pictures img")
            turned[scheme] = pictures.evaluate_all("all => all.map(one => getComputedStyle(one).filter != 'none')")

    assert turned == {"light": [False, False], "dark": [True, False]}
