from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.settings import find_project, read_settings, variable
from lab_runpod.settings import read_settings as cloud_settings


def test_the_project_is_found_upward_from_the_working_directory(project, monkeypatch):
    deep = project / "experiments" / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)

    settings = read_settings()

    assert settings.project == project
    assert settings.runs_folder == project / ".runs"
    assert settings.experiments_folder == project / "experiments"


def test_the_nearest_mark_wins_and_without_one_it_is_the_folder_itself(tmp_path):
    inner = tmp_path / "outer" / "inner"
    inner.mkdir(parents=True)

    assert find_project(inner) == inner
    (tmp_path / "outer" / "pyproject.toml").touch()
    assert find_project(inner) == tmp_path / "outer"
    (inner / ".lab").mkdir()
    assert find_project(inner) == inner


def test_a_named_project_brings_its_own_env_file(project, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / ".env").write_text("LAB_RUNS=elsewhere\n")
    monkeypatch.setenv("LAB_PROJECT", str(other))

    assert read_settings().runs_folder == other / "elsewhere"


def test_a_named_project_must_exist(project, monkeypatch):
    monkeypatch.setenv("LAB_PROJECT", "/nowhere/at/all")

    with pytest.raises(UsageError, match="LAB_PROJECT: there is no folder /nowhere/at/all"):
        read_settings()


@pytest.mark.parametrize("name", ["LAB_RUNS", "LAB_STORE"])
@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_is_no_folder_of_runs(project, monkeypatch, name, below):
    file = project / "notes.txt"
    file.touch()
    monkeypatch.setenv(name, str(file / below))

    with pytest.raises(UsageError, match=f"{name}: {file} is not a folder") as error:
        read_settings()

    assert error.value.exit_code == 2


@pytest.mark.parametrize(("name", "default"), [("LAB_RUNS", ".runs"), ("LAB_STORE", ".lab")])
def test_a_file_in_place_of_a_folder_that_nobody_named_is_to_be_moved(project, name, default):
    shutil.rmtree(project / default, ignore_errors=True)
    (project / default).touch()

    with pytest.raises(UsageError, match=f"^{project / default}: a folder of lab belongs here") as error:
        read_settings()

    assert error.value.do == f"Move it away, or set {name}."


def test_a_folder_named_in_the_env_file_is_named_too(project):
    (project / ".env").write_text("LAB_RUNS=notes.txt\n")
    (project / "notes.txt").touch()

    with pytest.raises(UsageError, match=r"^LAB_RUNS: .*notes\.txt is not a folder"):
        read_settings()


@pytest.mark.parametrize("name", ["runs", "store"])
def test_a_folder_may_stand_below_the_home(project, monkeypatch, name):
    monkeypatch.setenv("HOME", str(project / "home"))
    (project / ".env").write_text(f"LAB_{name.upper()}=~/lab\n")

    assert getattr(read_settings(), f"{name}_folder") == project / "home" / "lab"


def test_the_home_of_somebody_unknown_is_no_project(monkeypatch):
    monkeypatch.setenv("LAB_PROJECT", "~nobody-of-this-name/x")

    with pytest.raises(UsageError, match="LAB_PROJECT: there is no folder"):
        read_settings()


def test_a_folder_that_is_not_there_yet_is_no_fault(project, monkeypatch):
    monkeypatch.setenv("LAB_RUNS", "deep/er")

    assert read_settings().runs_folder == project / "deep" / "er"


def test_a_working_directory_that_was_removed_is_said(project, monkeypatch):
    gone = project / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()

    with pytest.raises(UsageError, match="the working directory no longer exists"):
        read_settings()


@pytest.mark.parametrize(
    "line",
    [
        'LAB_RUNS="x y"',
        "LAB_RUNS='x y'",
        "LAB_RUNS=x y # note",
        "export LAB_RUNS=x y",
        "\n\nLAB_RUNS=x y\n\n",
        "LAB_RUNS=x y\r\nLAB_STORE=z\r\n",
    ],
)
def test_the_env_file_is_read_by_the_rules_that_its_example_states(project, line):
    (project / ".env").write_bytes(line.encode())

    assert read_settings().runs == Path("x y")


def test_the_environment_comes_before_the_env_file(project, monkeypatch):
    (project / ".env").write_text("LAB_RUNS=file\n")
    monkeypatch.setenv("LAB_RUNS", "environment")

    assert read_settings().runs == Path("environment")


@pytest.mark.parametrize("text", ["false", "False", "0", "no", "off"])
def test_a_switch_that_says_no_is_off(project, monkeypatch, text):
    monkeypatch.setenv("LAB_DEBUG", text)

    assert read_settings().debug is False


def test_a_switch_that_says_neither_is_refused_by_its_name(project, monkeypatch):
    monkeypatch.setenv("LAB_DEBUG", "maybe")

    with pytest.raises(UsageError, match=r"^LAB_DEBUG: ") as caught:
        read_settings()

    assert str(project / ".env") in caught.value.do


def test_blocked_plugins_are_separated_by_commas(project, monkeypatch):
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "wandb, mlflow,,")

    assert read_settings().blocked_plugins == {"wandb", "mlflow"}


def no_text(path):
    path.write_bytes(b"\xff\xfe\x00")


def a_link_to_a_pipe(path):
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


@pytest.mark.parametrize("ask", [read_settings, lambda: variable("ACME_TOKEN"), cloud_settings])
@pytest.mark.parametrize(
    ("put", "what", "do"),
    [
        (no_text, "cannot be read: it is not UTF-8", "Save it as UTF-8"),
        (Path.mkdir, "is a folder, where a file of variables belongs", "move it away"),
        (os.mkfifo, "is a pipe or device", "move it away"),
        (a_link_to_a_pipe, "is a pipe or device", "move it away"),
        (lambda path: path.symlink_to("nowhere"), "is a link that leads to no file", "Mend it"),
        (lambda path: path.symlink_to(path.name), "is a link that leads to no file", "Mend it"),
    ],
    ids=["no text", "a folder", "a pipe", "a link to a pipe", "a dangling link", "a circle"],
)
def test_an_env_file_that_is_no_text_file_is_a_usage_error_and_is_not_waited_for(project, put, what, do, ask):
    put(project / ".env")

    with pytest.raises(UsageError) as error:
        ask()

    assert error.value.what.startswith(f"{project / '.env'}: {what}")
    assert do in error.value.do


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('A=1\n\n  \nACME_TOKEN="opened-never-closed\nB=2\n', [4]),
        ("ACME_TOKEN='opened-never-closed", [1]),
        ('A="1" opened-never-closed\r\nB=2\r\nopened never-closed\r\n', [1, 3]),
    ],
)
def test_a_line_that_cannot_be_read_is_told_once_by_file_and_line_without_what_it_says(project, caplog, text, lines):
    (project / ".env").write_bytes(text.encode())

    with pytest.raises(UsageError) as error:
        read_settings()

    told = [line.split(":")[0] for line in error.value.what.splitlines()]
    assert told == [f"{project / '.env'}, line {number}" for number in lines]
    assert "Close the quote" in error.value.do
    assert "never-closed" not in str(error.value)
    assert caplog.messages == []


def test_a_value_of_several_lines_in_quotes_is_one_value(project):
    (project / ".env").write_text('A_KEY="one\ntwo"\nLAB_RUNS=x\n')

    assert variable("A_KEY") == "one\ntwo"
    assert read_settings().runs == Path("x")


def test_a_misspelt_setting_of_a_cloud_is_pointed_out(project, monkeypatch, caplog):
    from lab_runpod import settings

    monkeypatch.setenv("LAB_RUNPOD_CONECT_SECONDS", "5")

    settings.read_settings()

    assert caplog.messages == [
        "LAB_RUNPOD_CONECT_SECONDS is no setting of lab. Did you mean LAB_RUNPOD_CONNECT_SECONDS?"
    ]


def test_a_misspelt_setting_is_pointed_out(project, monkeypatch, caplog):
    monkeypatch.setenv("LAB_BLOCKED_PLUGIN", "wandb")
    (project / ".env").write_text("LAB_RUNZ=x\n")
    monkeypatch.setenv("LAB_SOMETHING_OF_A_PLUGIN", "1")

    with caplog.at_level(logging.WARNING, logger="lab.settings"):
        read_settings()

    assert sorted(caplog.messages) == [
        "LAB_BLOCKED_PLUGIN is no setting of lab. Did you mean LAB_BLOCKED_PLUGINS?",
        "LAB_RUNZ is no setting of lab. Did you mean LAB_RUNS?",
    ]


def test_a_variable_is_found_in_the_environment_and_else_in_the_projects_file(project, monkeypatch):
    (project / ".env").write_text("ACME_TOKEN='of the file'\nACME_EMPTY=\n")
    asked = [variable("ACME_TOKEN"), variable("ACME_EMPTY"), variable("ACME_ABSENT")]
    monkeypatch.setenv("ACME_TOKEN", "of the environment")

    assert [*asked, variable("ACME_TOKEN")] == ["of the file", None, None, "of the environment"]
