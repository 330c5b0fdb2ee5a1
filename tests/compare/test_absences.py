from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sample_runs import CPU, Sample, write

from lab.compare import facts, gates
from lab.compare.comparison import compare
from lab.compare.verdicts import Verdict
from lab.errors import Refused

if TYPE_CHECKING:
    from pathlib import Path

    from lab.compare.answer import Comparison

OTHER = "sample-20261201-0916-bbbb"
YES, NO = Verdict.COMPARABLE, Verdict.NOT_COMPARABLE
ON_CPU = {"device": CPU, "peak": None}
ALL_WATCHED = {"steps": 6, "warmup": 0, "observed": frozenset(range(1, 7))}


def compared(runs: Path, a: dict[str, object], b: dict[str, object]) -> Comparison:
    return compare([facts.read(write(runs, Sample(), **a)), facts.read(write(runs, Sample(id=OTHER), **b))])


def verdicts(comparison: Comparison) -> tuple[Verdict, ...]:
    return tuple(one.verdict for one in comparison.pairs[0].judgements)


def named(comparison: Comparison) -> dict[str, tuple[object, object, str]]:
    return {check.name: (check.a, check.b, check.note) for check in comparison.pairs[0].failed}


def test_memory_that_no_run_measured_is_not_comparable_and_says_why(tmp_path: Path) -> None:
    result = compared(tmp_path, ON_CPU, ON_CPU)

    why = "nothing to compare: only a GPU has an allocator that counts"
    assert verdicts(result) == (YES, YES, NO)
    assert named(result) == {"memory not measured": ("not measured", "not measured", why)}
    assert f"Memory is not comparable: memory not measured. {why.capitalize().replace('gpu', 'GPU')}." in (
        result.pairs[0].claims
    )


def test_memory_that_one_run_measured_is_not_comparable_either_way(tmp_path: Path) -> None:
    there = compared(tmp_path / "there", {}, {"peak": None})
    back = compared(tmp_path / "back", {"peak": None}, {})

    why = "nothing to compare: no peak of a normal step is recorded"
    assert verdicts(there) == verdicts(back) == (YES, YES, NO)
    assert named(there) == {"memory not measured": ("37.25 GiB", "not measured", why)}
    assert named(back) == {"memory not measured": ("not measured", "37.25 GiB", why)}


def test_speed_without_a_measured_step_is_not_comparable(tmp_path: Path) -> None:
    result = compared(tmp_path, ALL_WATCHED, ALL_WATCHED)

    why = "nothing to compare: no step that is neither warm-up nor observed"
    assert verdicts(result) == (YES, NO, YES)
    assert named(result) == {"speed not measured": ("not measured", "not measured", why)}


def test_memory_that_nobody_measured_fails_its_requirement_and_no_other(tmp_path: Path) -> None:
    result = compared(tmp_path, ON_CPU, ON_CPU)

    gates.require(result, ("loss", "speed"))
    with pytest.raises(Refused, match="Memory is not comparable: memory not measured"):
        gates.require(result, ("memory",))
    with pytest.raises(Refused, match="memory not measured"):
        gates.fail_if(result, [gates.bound("memory:+5%")])


def test_a_run_again_is_not_advised_for_what_this_machine_cannot_measure(tmp_path: Path) -> None:
    assert compared(tmp_path / "one", ON_CPU, ON_CPU).next_command.startswith("lab report ")
    assert compared(tmp_path / "two", ON_CPU, ON_CPU | {"weights": "other"}).next_command == "lab run sample"


def test_a_run_on_a_cpu_is_the_same_as_itself(tmp_path: Path) -> None:
    run = facts.read(write(tmp_path, Sample(), **ON_CPU))

    result = compare([run, run])

    assert verdicts(result) == (YES, YES, YES)
    assert named(result) == {}
    assert "Memory was not measured." in result.pairs[0].claims
