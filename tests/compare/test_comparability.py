from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sample_runs import CODE, CPU, H100, Sample, edit, write

from lab.compare import facts
from lab.compare.comparison import compare
from lab.compare.differences import between
from lab.compare.verdicts import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lab.compare.answer import Comparison
    from lab.runs.directory import RunDirectory

OTHER = "sample-20261201-0916-bbbb"
YES, LIMITS, NO = Verdict.COMPARABLE, Verdict.WITHIN_LIMITS, Verdict.NOT_COMPARABLE
ON_CPU = Sample(device=CPU, peak=None)
CLOCKED = Sample(device=H100 | {"clocks": {"sm_mhz": 1980}})

# One changed thing -> the one check that may be named, and what it leaves of loss, speed and memory.
CASES = {
    "initial weights": (Sample(), {"weights": "other"}, (NO, YES, YES)),
    "tokens fed": (Sample(), {"fed_flips_at": 7}, (NO, LIMITS, LIMITS)),
    "evaluation inputs": (Sample(), {"evaluation_inputs": "other"}, (NO, YES, YES)),
    "objective": (Sample(), {"objective": "z-loss (weight = 0.01)"}, (NO, YES, YES)),
    "measurement scope": (Sample(), {"scope": "other"}, (YES, NO, NO)),
    "precision": (Sample(), {"precision": "fp32"}, (NO, NO, NO)),
    "GPU model": (Sample(), {"device": H100 | {"name": "NVIDIA H200"}}, (LIMITS, NO, LIMITS)),
    "GPU UUID": (Sample(), {"device": H100 | {"uuid": "GPU-b7"}}, (YES, LIMITS, YES)),
    "CPU model": (ON_CPU, {"cpu": "Another CPU"}, (LIMITS, NO, NO)),
    "CPU threads": (ON_CPU, {"threads": 4}, (YES, NO, NO)),
    "code": (Sample(), {"code": CODE | {"src/lab/worker/execute.py": "other\n"}}, (LIMITS, LIMITS, LIMITS)),
    "libraries": (Sample(), {"packages": {"torch": "2.14.1", "numpy": "2.4.6"}}, (LIMITS, LIMITS, LIMITS)),
    "clocks": (CLOCKED, {"device": H100 | {"clocks": {"sm_mhz": 1400}}}, (YES, LIMITS, YES)),
    "resumed": (Sample(), {"attempt": 2}, (LIMITS, LIMITS, LIMITS)),
    "both completed": (Sample(), {"status": "stopped"}, (LIMITS, LIMITS, LIMITS)),
    "whole records": (Sample(), {"torn": 1}, (LIMITS, LIMITS, LIMITS)),
}


def failed(comparison: Comparison) -> list[str]:
    return [check.name for check in comparison.pairs[0].failed]


def verdicts(comparison: Comparison) -> tuple[Verdict, ...]:
    return tuple(one.verdict for one in comparison.pairs[0].judgements)


def compared(a: RunDirectory, b: RunDirectory) -> Comparison:
    return compare([facts.read(a), facts.read(b)])


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return tmp_path / ".runs"


@pytest.mark.parametrize("name", CASES)
def test_one_difference_names_one_check_and_nothing_else(name: str, runs: Path) -> None:
    base, change, left = CASES[name]
    a = write(runs, base)
    b = write(runs, replace(base, id=OTHER), **change)

    there, back = compared(a, b), compared(b, a)

    assert failed(there) == failed(back) == [name, *(["memory not measured"] if base is ON_CPU else [])]
    assert verdicts(there) == verdicts(back) == left


@pytest.mark.parametrize(("objective", "shown"), [("cross-entropy", []), (None, []), ("z-loss", [True])])
def test_what_the_losses_measure_is_shown_where_it_is_not_cross_entropy(
    runs: Path, objective: str | None, shown: list[bool]
) -> None:
    a, b = write(runs, objective=objective), write(runs, id=OTHER, objective=objective)

    pair = compared(a, b).pairs[0]

    assert [check.passed for check in pair.checks if check.name == "objective"] == shown


def test_two_runs_of_one_experiment_are_comparable_for_everything(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER))

    assert failed(result) == []
    assert verdicts(result) == (YES, YES, YES)
    assert all(change.difference == 0 for change in result.pairs[0].changes)


@pytest.mark.parametrize(
    "sample", [Sample(), Sample(attempt=2, torn=1, status="failed"), Sample(failed_stage="prepare")]
)
def test_a_run_is_comparable_with_itself_whatever_it_lacks(sample: Sample, runs: Path) -> None:
    run = write(runs, sample)

    result = compared(run, run)

    assert failed(result) == []
    assert verdicts(result) == (YES, YES, YES)


MISSING: dict[str, Callable[[RunDirectory], None]] = {
    "initial weights": lambda run: edit(run.summary, fingerprints__weights_initial=None),
    "measurement scope": lambda run: edit(run.summary, fingerprints__scope=None),
    "precision": lambda run: edit(run.environment, precision=None),
    "GPU model": lambda run: edit(run.environment, device__name=None),
    "GPU UUID": lambda run: edit(run.environment, device__uuid=None),
    "libraries": lambda run: edit(run.environment, packages=None, python=None, driver=None, cuda=None),
    "code": lambda run: edit(run.provenance, files=None, code_sha256=None),
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_field_counts_as_different(name: str, runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    MISSING[name](b)

    result = compared(a, b)

    assert failed(result) == [name]
    assert result.pairs[0].failed[0].note == "run B does not say: counted as different"


def test_evaluation_inputs_missing_in_one_run_are_not_comparable(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, evaluation_inputs=None))

    assert failed(result) == ["evaluation inputs"]
    assert verdicts(result)[0] is NO


def test_tokens_that_a_loop_does_not_tell_count_as_different(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    for run in (a, b):
        run.metrics.write_text(run.metrics.read_text().replace('"fed"', '"unfed"'))

    result = compared(a, b)

    assert failed(result) == ["tokens fed"]
    assert "neither run says" in result.pairs[0].failed[0].note


def test_the_first_step_that_is_fed_differently_is_named(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, fed_flips_at=7))

    assert result.pairs[0].failed[0].note == "first differ at step 7"


def test_a_line_torn_in_the_middle_does_not_make_the_tokens_different(runs: Path) -> None:
    whole, torn = write(runs), write(runs, id=OTHER)
    lines = torn.metrics.read_bytes().splitlines(keepends=True)
    place = next(number for number, line in enumerate(lines) if json.loads(line).get("step") == 5)
    lines[place] = lines[place][:20] + b"\n"
    torn.metrics.write_bytes(b"".join(lines))

    for pair in ((whole, torn), (torn, whole)):
        result = compared(*pair)
        assert failed(result) == ["whole records"]
        assert verdicts(result) == (LIMITS, LIMITS, LIMITS)


def test_a_run_of_which_steps_were_profiled_is_not_compared_for_speed_with_one_that_was_not(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, observed=frozenset({5, 6, 7})))

    assert failed(result) == ["measurement scope"]
    assert verdicts(result) == (YES, NO, NO)


def test_a_declared_change_is_no_failed_check(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, overrides=("attention=flex",)))

    assert failed(result) == []
    declared = [(one.key, one.a, one.b) for one in result.pairs[0].differences if one.declared]
    assert declared == [("attention.name", "sdpa", "flex")]


def test_what_a_declared_change_brings_with_it_is_within_limits(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, overrides=("seed=43",), weights="other", fed_flips_at=1))

    assert failed(result) == ["initial weights", "tokens fed"]
    assert verdicts(result) == (LIMITS, LIMITS, LIMITS)
    assert result.pairs[0].failed[0].note == "comes with the declared seed"


def test_validation_data_may_not_differ_even_when_declared(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, overrides=("evaluate.batches=3",), evaluation_inputs="other"))

    assert verdicts(result)[0] is NO


def test_a_file_edited_between_two_runs_is_an_undeclared_change(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER, overrides=("attention=flex",))
    edit(b.config, experiment__optimizer__learning_rate=1e-3)

    result = compared(a, b)

    assert failed(result) == ["declared change"]
    assert result.pairs[0].failed[0].note == "1 undeclared: optimizer.learning_rate"
    assert verdicts(result) == (NO, NO, NO)


def test_a_change_made_in_both_children_is_declared_by_both(runs: Path) -> None:
    a = write(runs, overrides=("optimizer.learning_rate=1e-3",))
    b = write(runs, id=OTHER, overrides=("optimizer.learning_rate=2e-3",))

    result = compared(a, b)

    assert failed(result) == []
    assert [one.key for one in result.pairs[0].differences if one.declared] == ["optimizer.learning_rate"]


def test_a_base_that_moved_under_a_declared_change_makes_it_undeclared(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER, overrides=("optimizer.learning_rate=2e-3",))
    edit(a.config, experiment__optimizer__learning_rate=5e-4)

    assert failed(compared(a, b)) == ["declared change"]


def test_differences_stand_in_the_fixed_order(runs: Path) -> None:
    a = write(runs, CLOCKED)
    b = write(
        runs,
        id=OTHER,
        weights="other",
        tokenizer="other",
        code=CODE | {"src/lab/worker/execute.py": "other\n"},
        precision="fp32",
        packages={"torch": "2.14.1"},
        device=H100 | {"name": "NVIDIA H200", "clocks": {"sm_mhz": 1400}},
    )

    kinds = list(dict.fromkeys(one.kind for one in compared(a, b).pairs[0].differences))

    assert kinds == ["weights", "data", "code", "precision", "libraries", "hardware", "clocks"]


@pytest.mark.parametrize(
    "path", ["src/lab/cli/run.py", "docs/notes.md", "experiments/other.toml", "plugins/lab_flash_varlen/attention.py"]
)
def test_files_that_no_worker_runs_are_no_difference(path: str, runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, code=CODE | {path: "other\n"}))

    assert failed(result) == []


def test_what_git_says_beside_the_files_that_ran_is_no_difference(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    edit(b.provenance, repository__untracked=["screenshot.png"], repository__tracked_changes=["README.md"])
    edit(b.provenance, repository__state="dirty", repository__commit="f" * 40, repository__branch=None)

    result = compared(a, b)

    assert failed(result) == []
    assert result.pairs[0].differences == ()


def test_names_descriptions_and_observers_are_no_difference(runs: Path) -> None:
    result = compared(write(runs), write(runs, id=OTHER, description="Another text"))

    assert failed(result) == []


def test_runs_that_never_evaluate_are_compared_by_training_loss(runs: Path) -> None:
    a, b = write(runs, evaluation_inputs=None), write(runs, id=OTHER, evaluation_inputs=None)
    for run in (a, b):
        edit(run.config, experiment__evaluate=None)

    result = compared(a, b)

    assert failed(result) == []
    assert verdicts(result)[0] is YES


def test_another_version_of_a_plugin_from_elsewhere_is_a_difference_of_code(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    for run, version, digest in ((a, "1.0", "one"), (b, "2.0", "other")):
        plugin = {"name": "acme", "distribution": "lab-acme", "version": version, "files_sha256": digest}
        edit(run.provenance, plugins=[{**plugin, "third_party": True}])

    result = compared(a, b)

    [found] = result.pairs[0].differences
    assert failed(result) == ["code"]
    assert result.pairs[0].failed[0].note == "plugin acme"
    assert (found.key, found.a, found.b) == ("plugin acme", "lab-acme 1.0, files one", "lab-acme 2.0, files other")


WATCHES = {"name": "acme", "files_sha256": "one", "third_party": True, "parts": {"observer": ["acme"]}}


@pytest.mark.parametrize(("key", "declared"), [("observers.acme.steps", True), ("observers.other", False)])
def test_the_plugin_of_an_observer_comes_with_its_declaration(runs: Path, key: str, declared: bool) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    edit(b.provenance, plugins=[WATCHES])
    edit(b.config, declarations=[{"origin": "--set", "changes": [{"key": key, "before": None, "after": [1]}]}])

    result = compared(a, b)

    [plugin] = result.pairs[0].differences
    assert (plugin.key, plugin.declared) == ("plugin acme", declared)
    assert failed(result) == ["code"]
    assert ("comes with what is declared" in result.pairs[0].failed[0].note) is declared


def test_a_library_that_a_declared_observer_imports_comes_with_it(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    change = {"key": "observers.acme.steps", "before": None, "after": [1]}
    edit(b.config, declarations=[{"origin": "--set", "changes": [change]}])
    edit(b.environment, packages__drawing="1.0")

    [check] = compared(a, b).pairs[0].failed

    assert (check.name, check.a, check.b) == ("libraries", "drawing not imported", "drawing 1.0")
    assert check.note == "comes with the declared observers.acme"


@pytest.mark.parametrize("declared", [True, False])
def test_what_an_observer_brings_is_told_and_leaves_the_loss_comparable(runs: Path, declared: bool) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    edit(b.provenance, plugins=[WATCHES])
    edit(b.environment, packages__drawing="1.0", packages_of_observers=["drawing"])
    if declared:
        change = {"key": "observers.acme", "before": None, "after": True}
        edit(b.config, declarations=[{"origin": "--set", "changes": [change]}])

    result = compared(a, b)

    assert failed(result) == ["code", "libraries"]
    assert verdicts(result) == (YES, LIMITS, LIMITS)
    assert {one.key: one.declared for one in result.pairs[0].differences} == {
        "plugin acme": declared,
        "drawing": declared,
    }


@pytest.mark.parametrize(
    ("in_a", "in_b", "observers"),
    [(None, "1.0", []), ("1.0", "2.0", ["drawing"]), (None, "1.0", ["other"])],
    ids=["nobody says for whom", "both have it", "another one"],
)
def test_a_library_that_may_compute_lowers_every_verdict(
    runs: Path, in_a: str | None, in_b: str, observers: list[str]
) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    edit(b.environment, packages__drawing=in_b, packages_of_observers=observers)
    if in_a:
        edit(a.environment, packages__drawing=in_a, packages_of_observers=observers)

    result = compared(a, b)

    assert failed(result) == ["libraries"]
    assert verdicts(result) == (LIMITS, LIMITS, LIMITS)


def test_libraries_that_neither_run_knows_lower_every_verdict(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    for run in (a, b):
        edit(run.environment, packages={}, variables={}, python=None, driver=None, cuda=None, image=None)

    result = compared(a, b)

    assert failed(result) == ["libraries"]
    assert verdicts(result) == (LIMITS, LIMITS, LIMITS)


def test_a_plugin_that_also_computes_lowers_every_verdict(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    edit(b.provenance, plugins=[{**WATCHES, "parts": {"observer": ["acme"], "loss": ["acme"]}}])

    assert verdicts(compared(a, b)) == (LIMITS, LIMITS, LIMITS)


def test_a_plugin_that_brought_the_backend_alone_is_no_difference_of_code(runs: Path) -> None:
    a, b = write(runs), write(runs, id=OTHER)
    plugin = {"name": "cloud", "files_sha256": "one", "third_party": True, "parts": {"backend": ["cloud"]}}
    edit(b.provenance, plugins=[plugin])

    assert failed(compared(a, b)) == []


def test_what_a_part_chosen_anew_brings_is_declared_with_it(tmp_path):
    plain = facts.read(write(tmp_path))
    other = write(tmp_path, id=OTHER, overrides=("loss=liger",))
    config = json.loads(other.config.read_text())
    config["experiment"]["loss"] = {"name": "liger", "rows": 4096}
    other.config.write_text(json.dumps(config))

    found = {one.key: one.declared for one in between(plain, facts.read(other))}

    assert found["loss.name"] is True
    assert found["loss.rows"] is True


def test_an_option_changed_beside_the_same_part_is_not_declared(tmp_path):
    plain = facts.read(write(tmp_path))
    other = write(tmp_path, id=OTHER)
    config = json.loads(other.config.read_text())
    config["experiment"]["loss"]["rows"] = 4096
    other.config.write_text(json.dumps(config))

    found = {one.key: one.declared for one in between(plain, facts.read(other))}

    assert found["loss.rows"] is False
