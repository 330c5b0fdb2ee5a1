from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from sample_runs import edit, write
from terminals import in_a_terminal
from typer.testing import CliRunner

from lab.cli import app
from lab.errors import Refused, Regression, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

OTHER = "sample-20261201-0916-bbbb"


@pytest.fixture
def pair(project: Path) -> tuple[str, str]:
    write(project / ".runs", steps=60)
    write(project / ".runs", id=OTHER, steps=60, overrides=("attention=flex",), weights="other", peak=36_000_000_000)
    return "sample-20261201-0915-aaaa", OTHER


def lab(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_the_verdict_comes_first_figures_second_and_the_next_command_last(pair: tuple[str, str]) -> None:
    text = lab("compare", *pair).output

    order = [
        text.index(word) for word in ("not comparable: initial weights", "attention.name", "peak allocated", "Next: ")
    ]
    assert order == sorted(order)
    assert text.rstrip().splitlines()[-1].startswith("Next: lab run ")


def test_marks_and_directions_are_words_and_not_colours(pair: tuple[str, str]) -> None:
    text = lab("compare", *pair).output

    assert "\x1b[" not in text
    assert "+ better   - worse   ~ no claim   x not comparable   ! missing or not a number" in text
    assert "less memory" in text


def test_only_changed_leaves_out_what_is_the_same(pair: tuple[str, str]) -> None:
    text = lab("compare", *pair, "--only-changed").output

    assert "initial weights" in text
    assert "evaluation inputs" not in text
    assert "measurement scope" not in text


def test_no_table_is_empty_and_no_column_of_figures_nameless(pair: tuple[str, str]) -> None:
    for form in ((), ("--md",), ("--only-changed",), ("--only-changed", "--md")):
        text = lab("compare", pair[0], pair[0], *form).output

        assert "Nothing that was recorded differs." in text
        assert ("Every check holds." in text, "Every figure is the same." in text) == (("--only-changed" in form),) * 2
        assert not re.search(r"\| --- \|\n(?!\|)", text)
    assert "| difference | % | what it is worth |" in lab("compare", *pair, "--md").output


def test_what_differs_has_one_name_in_every_form(pair: tuple[str, str]) -> None:
    assert re.search(r"kind +difference +A +B", lab("compare", *pair).output)
    assert "### Differences\n\n|  | kind | difference | A | B |" in lab("compare", *pair, "--md").output
    page = lab("compare", *pair, "--html").output
    assert ">Differences</h2>" in page
    assert page.index(">Differences</h2>") < page.index(">Checks</h2>") < page.index(">Figures</h2>")


@pytest.mark.parametrize("form", ["--json", "--md", "--html"])
def test_every_form_leaves_out_what_is_the_same_when_asked(form: str, pair: tuple[str, str]) -> None:
    whole, changed = lab("compare", *pair, form).output, lab("compare", *pair, form, "--only-changed").output

    assert "initial weights" in changed
    assert "measurement scope" in whole
    assert "measurement scope" not in changed
    assert "median step" in whole
    assert "median step" not in changed


def test_the_loss_is_drawn_over_tokens(pair: tuple[str, str]) -> None:
    text = lab("compare", *pair).output

    picture = text[text.index("     loss  A, B training   a, b evaluations\n") : text.index("Next: ")].splitlines()
    assert any("A" in line and "|" in line for line in picture)
    assert any("B" in line and "|" in line for line in picture)
    assert any("b" in line and "|" in line for line in picture)
    assert picture[-2].split() == ["tokens", "0", "30k", "60k"]


def test_json_says_the_same_and_nothing_else(pair: tuple[str, str]) -> None:
    record = json.loads(lab("compare", *pair, "--json").output)

    assert record["schema"] == 1
    assert [run["id"] for run in record["runs"]] == list(pair)
    assert record["pairs"][0]["verdicts"] == {"loss": "not comparable", "speed": "comparable", "memory": "comparable"}


def test_markdown_and_html_are_whole_documents(pair: tuple[str, str]) -> None:
    assert lab("compare", *pair, "--md").output.startswith("# sample-20261201-0915-aaaa and ")
    assert lab("compare", *pair, "--html").output.startswith("<!doctype html>")


def test_two_forms_at_once_are_refused(pair: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="Give one of"):
        lab("compare", *pair, "--json", "--md")


def test_one_run_is_not_a_comparison(pair: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match="two runs or more"):
        lab("compare", pair[0])


def test_a_required_question_that_is_not_comparable_ends_with_three(pair: tuple[str, str]) -> None:
    with pytest.raises(Refused, match="Loss is not comparable: initial weights"):
        lab("compare", *pair, "--require", "loss,memory")

    assert lab("compare", *pair, "--require", "memory").exit_code == 0


def test_a_figure_that_moved_too_far_ends_with_four(pair: tuple[str, str]) -> None:
    with pytest.raises(Regression, match="peak allocated"):
        lab("compare", *reversed(pair), "--fail-if", "memory:+5%")

    assert lab("compare", *pair, "--fail-if", "memory:+5%", "--fail-if", "speed:-3%").exit_code == 0


def test_a_bound_that_cannot_be_read_stops_before_any_work(project: Path) -> None:
    with pytest.raises(UsageError, match="is not a bound"):
        lab("compare", "a", "b", "--fail-if", "speed")


def test_latest_and_prefixes_name_runs(pair: tuple[str, str]) -> None:
    record = json.loads(lab("compare", "sample-20261201-0915", "latest", "--json").output)

    assert [run["id"] for run in record["runs"]] == list(pair)


def test_a_run_with_itself_is_the_same_in_everything(pair: tuple[str, str]) -> None:
    record = json.loads(lab("compare", pair[0], pair[0], "--json").output)

    assert set(record["pairs"][0]["verdicts"].values()) == {"comparable"}
    assert {change["difference"] for change in record["pairs"][0]["changes"]} == {0.0}


@pytest.mark.parametrize(("columns", "difference"), [(80, False), (120, True)])
def test_a_terminal_of_any_width_breaks_no_word_and_no_line_of_the_plot(
    columns: int, difference: bool, pair: tuple[str, str]
) -> None:
    text = in_a_terminal(columns, "compare", *pair)

    lines = text.splitlines()
    assert [line for line in lines if len(line) > columns] == []
    assert "attention.name" in text
    assert any({"figure", "difference"} <= {*line.split()} for line in lines) is difference
    assert any(line.split()[:1] == ["tokens"] and line.endswith("60k") for line in lines)
    claims = " ".join(text.split())
    assert "so smoothing does not help; more seeds do" in claims or "their difference is no result" in claims


def test_lines_of_two_very_unlike_runs_can_be_read_in_a_pipe_and_json_holds_everything(project: Path) -> None:
    one, other = write(project / ".runs"), write(project / ".runs", id=OTHER, overrides=("seed=7",))
    wheels = [f"wheel-{number}==1.0" for number in range(40)]
    edit(one.config, experiment__environment__packages=wheels, **{f"experiment__data__k{n}": n for n in range(60)})
    edit(other.config, experiment__environment__packages=[*wheels[:20], "wheel-20==2.0", *wheels[21:]])

    text = lab("compare", one.id, other.id).output
    record = json.loads(lab("compare", one.id, other.id, "--json").output)

    assert max(len(line) for line in text.splitlines()) <= 200
    [row] = [line.split() for line in text.splitlines() if "environment.packages" in line]
    assert row[-2:] == ["wheel-20==1.0", "wheel-20==2.0"]
    check = next(check for check in record["pairs"][0]["checks"] if check["name"] == "declared change")
    assert {f"data.k{number}" for number in range(60)} <= check["a"].keys()
    assert wheels in [difference["a"] for difference in record["pairs"][0]["differences"]]


def test_a_busy_machine_is_told_once_under_the_verdict_on_speed(project: Path) -> None:
    one, other = (write(project / ".runs", id=run, sampled=True) for run in ("sample-20261201-0915-aaaa", OTHER))
    busy = other.metrics.read_text().replace('"processor_percent"', '"others_percent":48,"processor_percent"')
    other.metrics.write_text(busy)

    lines = lab("compare", one.id, other.id).output.splitlines()

    [at] = [number for number, line in enumerate(lines) if "48 % of all in B: it may have cost speed" in line]
    assert lines[at - 1].startswith("A and B  speed")
