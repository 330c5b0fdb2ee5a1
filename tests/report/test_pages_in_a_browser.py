from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from report_browser import Chromium, Opened, chromium
from sample_runs import edit, write

from lab.compare import facts
from lab.compare.comparison import compare
from lab.report import page
from lab.runs import records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.browser
OTHER = "sample-20261201-0916-bbbb"
HOSTILE = '</script><script>document.title="X"</script><img src=x onerror="document.title=1">'
HOSTILE = '</script><script>document.title="X"</script>'
TICKS = "svg.marks .role-axis-label text"


def changed_from(ticks: list[str], chart: Any) -> list[str]:
    """The labels of the axes as soon as they are others than `ticks`."""
    for _ in range(200):
        now = chart.locator(TICKS).all_inner_texts()
        if now != ticks:
            return now
    raise AssertionError("the axes stayed as they were")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    runs = tmp_path_factory.mktemp("project") / ".runs"
    whole = write(runs, steps=60, observed=frozenset({21, 22}), overrides=("attention=flex",), dollars=0.4)
    other = write(runs, id=OTHER, steps=60, nan_steps=frozenset({30, 31}), description=HOSTILE)
    short = write(runs, id="short-20261201-0917-cccc", steps=1, warmup=0, every=9)
    edited = [line for line in records.read_lines(short.metrics) if line["kind"] == "step"]
    short.metrics.write_text("".join(json.dumps(line) + "\n" for line in edited), encoding="utf-8")
    hostile = write(runs, id="hostile-20261201-0918-dddd", description=HOSTILE)
    edit(hostile.config, experiment__name=HOSTILE)
    edit(hostile.environment, device__name=HOSTILE)
    hostile.metrics.write_text(hostile.metrics.read_text().replace('"flops"', json.dumps(HOSTILE)), encoding="utf-8")
    failed = write(runs, id="failed-20261201-0919-eeee", status="failed", failed_stage="train")
    ended = [
        line | ({"reason": "train exited with code 1"} if line.get("exit_code") else {})
        for line in records.read_lines(failed.stages)
    ]
    failed.stages.write_text("".join(json.dumps(line) + "\n" for line in ended), encoding="utf-8")
    comparison = runs / "comparison.html"
    comparison.write_text(page.comparison_page(compare([facts.read(whole), facts.read(other)])), encoding="utf-8")
    written = {
        "run": page.write(whole),
        "broken": page.write(other),
        "one step": page.write(short),
        "hostile": page.write(hostile),
        "failed": page.write(failed),
    }
    return {**written, "comparison": comparison}


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    with chromium() as found:
        yield found


@pytest.fixture
def run(browser: Chromium, pages: dict[str, Path]) -> Iterator[Opened]:
    with browser.open(pages["run"]) as found:
        yield found


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("name", ["run", "broken", "one step", "hostile", "comparison"])
def test_a_page_opens_without_complaint_request_or_horizontal_scroll(
    name: str, width: int, scheme: str, pages: dict[str, Path], browser: Chromium
) -> None:
    with browser.open(pages[name], width, scheme) as found:
        assert found.complaints == []
        assert found.requests == [pages[name].as_uri()]
        assert found.width_of_content() == width


MOVED = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.innerText.slice(0, 80))"
"""The boxes whose table is wider than they are."""


def test_on_a_phone_what_was_recorded_is_read_without_moving_its_table(
    pages: dict[str, Path], browser: Chromium
) -> None:
    with browser.open(pages["run"], 360) as found:
        assert found.page.eval_on_selector_all(".scroll:has(td.key, td.hash)", MOVED) == []


def test_on_a_phone_a_comparisons_tables_are_cards_that_name_each_value_and_stay_tables(
    pages: dict[str, Path], browser: Chromium
) -> None:
    with browser.open(pages["comparison"], 360) as found:
        assert found.page.eval_on_selector_all(".scroll", MOVED) == []
        figure = found.page.get_by_role("row").filter(has_text="validation loss")
        named = figure.locator("[data-column=difference]").evaluate(
            "cell => getComputedStyle(cell, '::before').content"
        )

        assert named == '"difference"'
        assert found.page.get_by_role("columnheader", name="what it is worth").count() == 1
    with browser.open(pages["comparison"], 1280) as found:
        assert (
            found.page.locator("table.cards td").first.evaluate("cell => getComputedStyle(cell).display")
            == "table-cell"
        )


def test_a_run_of_one_step_shows_its_one_value(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["one step"]) as found:
        value = found.page.locator("#loss").get_by_role("row").filter(has_text="Loss over tokens")

        assert value.count() == 1
        assert value.is_visible()
        assert found.page.locator("[data-chart]").count() == 0


def test_a_phone_holds_how_a_stage_ended(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["failed"], 360) as found:
        assert found.width_of_content() == 360
        assert "exit code 1: train exited" in found.page.locator("#stages").inner_text()


def test_text_that_is_a_script_is_shown_and_does_not_run(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["broken"]) as found:
        assert OTHER in found.page.title()
        assert HOSTILE in found.page.locator("body").inner_text()


def test_text_that_closes_a_script_is_text_and_runs_nothing(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["hostile"]) as found:
        assert found.complaints == []
        assert found.page.title().startswith("hostile-20261201-0918-dddd")
        assert HOSTILE in found.page.inner_text("body")
        assert found.page.locator("img[src=x]").count() == 0


def test_every_section_has_a_heading_that_can_be_seen(run: Opened) -> None:
    sections = run.page.locator("main section")

    assert sections.count() >= 12
    for place in range(sections.count()):
        assert sections.nth(place).locator("h2").is_visible()


def test_every_link_of_the_contents_leads_somewhere(run: Opened) -> None:
    targets = run.page.eval_on_selector_all("nav a", "links => links.map(a => a.getAttribute('href'))")

    assert len(targets) >= 12
    assert all(run.page.locator(target).count() == 1 for target in targets)


def test_arrow_keys_read_values_and_plus_looks_closer(run: Opened) -> None:
    chart, reading = run.page.locator("[data-chart=loss]"), run.page.locator("#loss-reading")
    chart.focus()

    run.page.keyboard.press("ArrowRight")
    first = reading.inner_text()
    run.page.keyboard.press("ArrowRight")
    second = reading.inner_text()
    before = chart.locator(TICKS).all_inner_texts()
    run.page.keyboard.press("+")
    closer = changed_from(before, chart)
    run.page.keyboard.press("0")
    whole = changed_from(closer, chart)

    assert first.startswith("tokens 0")
    assert "evaluation 10" in first
    assert second.startswith("tokens 1,000")
    assert whole == before


def test_the_pointer_reads_values_too(run: Opened) -> None:
    run.page.locator("[data-chart=step-time]").hover()

    assert run.page.locator("#step-time-reading").inner_text().startswith("step ")


def test_what_is_read_is_marked_where_it_is_drawn(run: Opened) -> None:
    chart = run.page.locator("[data-chart=loss]")
    chart.press("Home")

    marked, drawn = chart.evaluate(  # both at once: the page may still be moving there
        """chart => [".over circle", ".mark-symbol.role-mark path"].map(name => {
            const box = chart.querySelector(name).getBoundingClientRect();
            return [box.left + box.width / 2, box.top + box.height / 2];
        })"""
    )
    assert marked == pytest.approx(drawn, abs=0.6)


def test_a_legend_shows_a_line_as_a_line_and_points_as_points(run: Opened) -> None:
    keys = run.page.locator("[data-chart=step-time] .role-legend-symbol path")

    shapes = keys.evaluate_all("paths => paths.map(one => one.getAttribute('d').replace(/[^a-z]/gi, ''))")
    assert shapes[0] == "ML"
    assert len({*shapes}) == 3  # a line, warm-up steps, observed steps
    assert keys.evaluate_all("paths => paths.map(one => one.getAttribute('fill') === 'transparent')") == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("width", [360, 1280])
def test_no_empty_space_is_left_below_a_chart(width: int, pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["run"], width) as found:
        below = found.page.eval_on_selector_all(
            ".plot",
            """plots => plots.map(plot => plot.querySelector("summary").getBoundingClientRect().top
                                        - plot.querySelector(".chart svg").getBoundingClientRect().bottom)""",
        )
        assert max(below) < 8


def test_a_value_that_is_not_a_number_is_read_as_that(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["broken"]) as found:
        found.page.locator("[data-chart=gradient-norm]").focus()
        for _ in range(30):
            found.page.keyboard.press("ArrowRight")

        assert found.page.locator("#gradient-norm-reading").inner_text().endswith("not a number")


def test_text_is_dark_on_light_and_light_on_dark(pages: dict[str, Path], browser: Chromium) -> None:
    script = "getComputedStyle(document.body).backgroundColor"
    with browser.open(pages["run"], scheme="light") as light:
        assert light.page.evaluate(script) == "rgb(253, 252, 250)"
    with browser.open(pages["run"], scheme="dark") as dark:
        assert dark.page.evaluate(script) == "rgb(22, 23, 26)"


def test_without_scripts_the_pictures_are_there(pages: dict[str, Path], browser: Chromium) -> None:
    with browser.open(pages["run"], scripts=False) as found:
        assert found.page.locator("[data-chart] svg").count() >= 5
        assert found.page.locator("[data-chart] svg").first.is_visible()


def test_paper_gets_everything_that_is_folded(run: Opened) -> None:
    run.page.evaluate("dispatchEvent(new Event('beforeprint'))")

    assert run.page.locator("details:not([open])").count() == 0


def test_colours_have_the_contrast_that_reading_needs(pages: dict[str, Path], browser: Chromium) -> None:
    for scheme in ("light", "dark"):
        with browser.open(pages["run"], scheme=scheme) as found:
            ratios = found.page.evaluate(CONTRAST)
            assert min(ratios["text"].values()) >= 4.5, ratios
            assert min(ratios["lines"].values()) >= 3, ratios


CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue(name).trim().slice(1).replace(/^(.)(.)(.)$/, "$1$1$2$2$3$3");
    const parts = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const ratio = (name) => {
    const [low, high] = [light(name), light("--paper")].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const of = (names) => Object.fromEntries(names.map((name) => [name, ratio(name)]));
  return {
    text: of(["--ink", "--soft", "--accent", "--good", "--bad", "--open"]),
    lines: of([0, 1, 2, 3, 4, 5].map((place) => `--series-${place}`)),
  };
}"""
