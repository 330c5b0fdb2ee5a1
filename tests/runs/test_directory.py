from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.errors import LabError, UsageError
from lab.runs.directory import NAME, RunDirectory, every

NOON = datetime(2026, 12, 1, 9, 15, tzinfo=UTC)


def test_an_id_says_what_ran_and_when_in_utc(tmp_path):
    elsewhere = NOON.astimezone(timezone(timedelta(hours=9)))

    run = RunDirectory.create(tmp_path / "runs", "smoke", elsewhere)

    assert run.id.startswith("smoke-20261201-0915-")
    assert NAME.match(run.id)
    assert run.logs.is_dir()


def test_two_runs_of_one_minute_never_share_a_directory(tmp_path, monkeypatch):
    ends = iter(["aaaa", "aaaa", "bbbb"])
    monkeypatch.setattr("lab.runs.directory.secrets.token_hex", lambda size: next(ends))

    runs = [RunDirectory.create(tmp_path, "smoke", NOON) for _ in range(2)]

    assert [run.id[-4:] for run in runs] == ["aaaa", "bbbb"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text(max_size=300))
def test_no_name_leads_out_of_the_runs_folder(tmp_path, name):
    run = RunDirectory.create(tmp_path, name, NOON)

    assert run.path.resolve().parent == tmp_path.resolve()
    assert not run.id.startswith((".", "-"))


def test_a_folder_that_cannot_be_made_is_named_and_leaves_nothing(tmp_path):
    (tmp_path / "runs").write_text("a file")

    with pytest.raises(LabError, match="runs"):
        RunDirectory.create(tmp_path / "runs", "smoke")


def test_a_folder_without_a_config_is_no_run(tmp_path):
    with pytest.raises(UsageError, match=r"no config\.json"):
        RunDirectory.open(tmp_path)


def test_runs_are_listed_by_age_and_other_things_are_not(tmp_path):
    for name in ("b-20261201-0915-aaaa", "a-20261202-0915-bbbb", "zz", "a-20261130-2359-cccc"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()

    assert [run.id for run in every(tmp_path)] == [
        "a-20261130-2359-cccc", "b-20261201-0915-aaaa", "a-20261202-0915-bbbb", "zz",
    ]  # fmt: skip
    assert every(tmp_path / "missing") == []
