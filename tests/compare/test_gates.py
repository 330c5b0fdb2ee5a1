from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest
from sample_runs import write

from lab.compare import facts, gates
from lab.compare.changes import Mark
from lab.compare.comparison import compare
from lab.errors import Refused, Regression, UsageError
from lab.runs import records

if TYPE_CHECKING:
    from pathlib import Path

    from lab.compare.answer import Comparison

OTHER = "sample-20261201-0916-bbbb"


def compared(tmp_path: Path, **changes: object) -> Comparison:
    runs = tmp_path / ".runs"
    return compare([facts.read(write(runs)), facts.read(write(runs, id=OTHER, **changes))])


def test_a_question_that_is_not_comparable_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="Loss is not comparable: initial weights") as refusal:
        gates.require(compared(tmp_path, weights="other"), ("memory", "loss"))

    assert refusal.value.exit_code == 3


def test_questions_within_limits_satisfy_a_requirement(tmp_path: Path) -> None:
    gates.require(compared(tmp_path, torn=1), ("loss", "speed", "memory"))


@pytest.mark.parametrize(
    ("text", "changes", "broken"),
    [
        ("speed:-3%", {"seconds": 0.6}, True),
        ("speed:-3%", {"seconds": 0.505}, False),
        ("speed:-3%", {"seconds": 0.4}, False),
        ("loss:+0.02", {"loss_floor": 3.05}, True),
        ("loss:+0.02", {"loss_floor": 3.01}, False),
        ("memory:+5%", {"peak": 43_000_000_000}, True),
        ("memory:+5%", {"peak": 41_000_000_000}, False),
        ("memory:+5%", {"peak": 36_000_000_000}, False),
    ],
)
def test_a_figure_that_moved_too_far_is_a_regression(text: str, changes: dict, broken: bool, tmp_path: Path) -> None:
    comparison = compared(tmp_path, **changes)

    if broken:
        with pytest.raises(Regression) as regression:
            gates.fail_if(comparison, [gates.bound(text)])
        assert regression.value.exit_code == 4
    else:
        gates.fail_if(comparison, [gates.bound(text)])


def test_a_bound_on_what_is_not_comparable_is_refused_rather_than_judged(tmp_path: Path) -> None:
    with pytest.raises(Refused):
        gates.fail_if(compared(tmp_path, scope="other"), [gates.bound("speed:-3%")])


def test_a_figure_that_is_missing_or_nan_breaks_its_bound(tmp_path: Path) -> None:
    with pytest.raises(Regression, match="missing or not a number"):
        gates.fail_if(compared(tmp_path, nan_steps=frozenset(range(1, 21))), [gates.bound("loss:+0.02")])


def test_a_bound_on_loss_is_not_judged_by_the_training_loss_where_one_run_was_never_evaluated(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    one, other = write(runs), write(runs, id=OTHER)
    lines = [line for line in records.read_lines(other.metrics) if line["kind"] != "evaluation"]
    other.metrics.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    comparison = compare([facts.read(one), facts.read(other)])

    found = {change.measure.name: (change.mark, change.words) for change in comparison.pairs[0].changes}

    assert found["validation loss"] == (Mark.BROKEN, "missing in B")
    with pytest.raises(Regression, match=r"loss is missing or not a number; loss:\+1% cannot hold"):
        gates.fail_if(comparison, [gates.bound("loss:+1%")])


def test_a_run_whose_first_step_comes_later_than_the_others_last_is_not_said_to_lack_its_loss(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    comparison = compare([facts.read(write(runs, targets=100_000)), facts.read(write(runs, id=OTHER, targets=10))])

    found = {change.measure.name: change.words for change in comparison.pairs[0].changes}

    assert found["training loss"] == "no value at so few tokens in A"


@pytest.mark.parametrize(("floor", "broken"), [(-4.0, True), (-6.0, False)])
def test_a_share_of_a_negative_loss_has_the_sign_of_where_it_went(floor: float, broken: bool, tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    comparison = compare(
        [facts.read(write(runs, loss_floor=-5.0)), facts.read(write(runs, id=OTHER, loss_floor=floor))]
    )

    with pytest.raises(Regression, match=r"\+\d\d\.\d %") if broken else nullcontext():
        gates.fail_if(comparison, [gates.bound("loss:+1%")])


def test_a_share_of_nothing_is_said_to_be_none(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    comparison = compare([facts.read(write(runs, peak=0)), facts.read(write(runs, id=OTHER))])

    with pytest.raises(Regression, match=r"peak allocated is 0 in .*, of which memory:\+5% is no share"):
        gates.fail_if(comparison, [gates.bound("memory:+5%")])


@pytest.mark.parametrize("text", ["speed", "speed:3%", "speed:-0%", "sped:-3%", "speed:-3x", ""])
def test_a_bound_that_bounds_nothing_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError):
        gates.bound(text)


def test_an_unknown_question_is_named_with_the_nearest_valid_one() -> None:
    with pytest.raises(UsageError, match="Did you mean 'memory'"):
        gates.questions("loss,memry")
