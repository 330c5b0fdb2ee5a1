from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from lab.errors import UsageError
from lab.runs import records
from lab.runs.directory import RunDirectory, every
from lab.runs.find import as_written, find
from lab.runs.index import rows
from lab.runs.tags import change
from lab.settings import read_settings

A, B, C = "smoke-20261201-0915-7f3a", "smoke-20261201-0916-7f3b", "corrected-20261202-1000-0000"


@pytest.fixture
def settings(project):
    settings = read_settings()
    for name in (A, B, C):
        (settings.runs_folder / name).mkdir(parents=True)
        records.write_json(settings.runs_folder / name / "config.json", {"schema": 1})
    records.write_json(settings.runs_folder / B / "receipt.json", {"backend": "runpod", "handle": "pod123xyz"})
    return settings


@pytest.mark.parametrize(
    ("reference", "expected"),
    [(A, A), ("corr", C), ("smoke-20261201-0916", B), ("latest", C), ("pod123xyz", B), (f".runs/{A}", A),
     (f"./.runs/{B}/", B), (f".runs/{C}/config.json", C)],
)  # fmt: skip
def test_a_run_is_found_by_id_prefix_latest_machine_or_path(settings, reference, expected):
    assert find(reference, settings).id == expected


def test_a_run_in_the_working_directory_is_found_by_its_name(settings, monkeypatch):
    monkeypatch.chdir(settings.runs_folder)
    elsewhere = settings.runs_folder.parent / "copied"
    os.rename(settings.runs_folder / A, elsewhere)
    monkeypatch.chdir(settings.runs_folder.parent)

    assert find("copied", settings).path == elsewhere


def test_a_prefix_of_several_runs_lists_them_and_names_the_latest(settings):
    with pytest.raises(UsageError, match="names 2 runs") as caught:
        find("smok", settings)

    assert A in caught.value.what
    assert B in caught.value.do


def test_an_id_that_is_also_the_start_of_another_is_itself(settings):
    longer = settings.runs_folder / f"{A}-copy"
    longer.mkdir()
    records.write_json(longer / "config.json", {})

    assert find(A, settings).id == A


def test_an_unknown_name_suggests_the_nearest(settings):
    with pytest.raises(UsageError, match="No run is called") as caught:
        find("smoke-20261201-0915-7f3z", settings)

    assert A in caught.value.do


def test_an_experiment_that_never_ran_is_told_as_that_with_the_command_that_runs_it(settings):
    with pytest.raises(UsageError, match="No run of experiment 'fast' is here") as caught:
        find("fast", settings)

    assert caught.value.do == "Make one with: lab run fast"


def test_without_any_run_an_experiments_own_command_is_named(project):
    with pytest.raises(UsageError, match="There is no run") as caught:
        find("smoke", read_settings())

    assert caught.value.do == "Make one with: lab run smoke"


def test_without_any_run_it_says_how_to_make_one(project):
    with pytest.raises(UsageError, match="There is no run"):
        find("latest", read_settings())


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reference=st.text() | st.sampled_from(["..", ".", "/", "../..", "~", "a\0b", "x" * 5000, "/" * 5000, "\udcff"]))
def test_whatever_is_typed_is_a_run_or_a_usage_error(settings, reference):
    try:
        found = find(reference, settings)
    except UsageError:
        return

    assert found.config.is_file()


def test_an_experiments_name_is_its_newest_run_whatever_else_begins_with_it(project):
    settings = read_settings()
    for name in ("smoke-20261201-0900-aaaa", "smoke-20261201-0915-bbbb", "smoke-larger-20261201-0930-cccc"):
        (settings.runs_folder / name).mkdir(parents=True)
        (settings.runs_folder / name / "config.json").write_text("{}")

    assert find("smoke", settings).id == "smoke-20261201-0915-bbbb"
    assert find("smoke-larger", settings).id == "smoke-larger-20261201-0930-cccc"


def test_the_latest_of_one_minute_is_the_one_that_was_made_last(project):
    settings = read_settings()
    ends = ["cccc", "aaaa", "dddd", "bbbb"]
    for moment, end in enumerate(ends, start=1):
        run = RunDirectory(settings.runs_folder / f"smoke-20261201-0915-{end}")
        run.path.mkdir(parents=True)
        records.write_json(run.config, {})
        os.utime(run.config, ns=(moment, moment))

    assert [run.id[-4:] for run in every(settings.runs_folder)] == ends
    assert [row.id[-4:] for row in rows(settings)] == ends
    assert find("latest", settings).id.endswith("bbbb")
    assert find("smoke", settings).id.endswith("bbbb")


@pytest.mark.parametrize(
    ("made", "chosen", "told"),
    [
        ([("completed", []), ("completed", [])], 1, ""),
        ([("completed", []), ("completed", ["seed=1"])], 0, "has --set"),
        ([("completed", []), ("failed", [])], 0, "is failed"),
        ([("completed", []), ("completed", ["seed=1"]), ("stopped", [])], 0, "is stopped"),
        ([("completed", ["seed=1"]), ("failed", [])], 0, "is failed"),
        (
            [("completed", ["seed=1"]), ("completed", ["seed=2"])],
            1,
            "which has --set: no run completed as the file says",
        ),
        ([("failed", []), ("stopped", [])], 1, ""),
    ],
)
def test_what_is_compared_is_the_run_that_completed_as_its_file_says(project, caplog, made, chosen, told):
    settings = read_settings()
    for number, (word, overrides) in enumerate(made):
        run = RunDirectory(settings.runs_folder / f"smoke-20261201-091{number}-aaaa")
        run.path.mkdir(parents=True)
        records.write_json(run.config, {"overrides": overrides})
        records.write_json(run.outcome, {"status": word, "attempt": 1})

    assert find("smoke", settings, as_written).id == f"smoke-20261201-091{chosen}-aaaa"
    assert find("smoke", settings).id == f"smoke-20261201-091{len(made) - 1}-aaaa"
    assert (told in caplog.text) if told else not caplog.text


def test_a_tag_names_its_run_and_several_are_listed(settings):
    change(RunDirectory(settings.runs_folder / C), ["before-lunch"])
    assert find("before-lunch", settings).id == C

    change(RunDirectory(settings.runs_folder / A), ["before-lunch"])
    with pytest.raises(UsageError, match="names 2 runs"):
        find("before-lunch", settings)
