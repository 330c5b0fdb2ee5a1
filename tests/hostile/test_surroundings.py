"""Folders, disks, homes, locales and `.env` files that are not as they should be: a message, an exit code, no trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import sample_runs

from lab.runs.directory import every
from lab.settings import read_settings

QUICK = """
description = "One command"
[trackers]
mlflow = false
[[stages]]
name = "only"
run = ["sh", "-c", "printf %s \\"$ACME_API_KEY\\" | wc -c > {run}/length.txt"]
"""
FORWARDS = QUICK + 'forward = ["ACME_API_KEY"]\n'
LISTINGS = (["experiments"], ["runs"], ["plugins"], ["data"], ["rentals"])


def told(answer, code):
    """Whether the command said what is wrong, as a person can read it."""
    assert answer.code == code, answer.err
    assert answer.err.startswith("Error: ")
    assert "bug in lab" not in answer.err
    assert "Traceback" not in answer.out + answer.err


def fine(answer):
    assert answer.code == 0, answer.err
    assert "Traceback" not in answer.err


def leftovers(folder):
    return [path for path in folder.rglob("*") if path.name.endswith((".part", ".tmp")) or path.name.startswith("tmp")]


@pytest.fixture
def quick(project):
    (project / "experiments" / "quick.toml").write_text(QUICK)
    return project


def a_file(path):
    path.write_text("in the way")


def a_dangling_link(path):
    path.symlink_to("nowhere/at/all")


def a_circle(path):
    path.symlink_to(path.name)


IN_THE_WAY = pytest.mark.parametrize("put", [a_file, a_dangling_link, a_circle])


@IN_THE_WAY
def test_without_a_folder_of_experiments_only_those_of_lab_are_known(lab, project, put):
    for path in (project / "experiments").iterdir():
        path.unlink()
    (project / "experiments").rmdir()
    put(project / "experiments")

    fine(lab("experiments"))
    told(lab("check", "nothing"), 2)
    told(lab("run", "nothing"), 2)
    assert every(read_settings().runs_folder) == []


@IN_THE_WAY
def test_an_experiment_that_is_no_file_is_a_usage_error(lab, project, put):
    (project / "experiments" / "odd.toml").mkdir() if put is a_file else put(project / "experiments" / "odd.toml")

    fine(lab("experiments"))
    told(lab("check", "odd"), 2)


@IN_THE_WAY
def test_where_no_run_can_be_made_nothing_starts_and_nothing_is_left(lab, quick, put):
    put(quick / ".runs")
    before = sorted(quick.rglob("*"))

    code = 2 if put is a_file else 1
    told(lab("run", "quick"), code)
    if put in (a_file, a_circle):
        told(lab("runs"), code)
        told(lab("report", "latest"), code)
    else:
        fine(lab("runs"))
        told(lab("report", "latest"), 2)
    assert sorted(quick.rglob("*")) == before


@IN_THE_WAY
def test_a_store_that_cannot_be_used_is_named_and_changes_nothing(lab, project, put):
    sample_runs.write(read_settings().runs_folder)
    (project / ".lab").rmdir()
    put(project / ".lab")
    before = sorted(project.rglob("*"))

    for listing in LISTINGS:
        answer = lab(*listing)
        assert answer.code in (0, 1, 2)
        assert "bug in lab" not in answer.err
    told(lab("data", "prepare", "smoke"), 2 if put is a_file else 1)
    assert sorted(project.rglob("*")) == before


def read_only(folder):
    """A file system that refuses writes, where this process may mount one; else None."""
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", folder], capture_output=True, check=False)
    return mount.returncode == 0


def test_a_read_only_disk_is_told_with_what_to_do(lab, quick, monkeypatch):
    where = quick / "disk"
    where.mkdir()
    mounted = read_only(where)
    monkeypatch.setenv("LAB_RUNS", str(where / "runs") if mounted else "/proc/runs")
    monkeypatch.setenv("LAB_STORE", str(where / "store") if mounted else "/proc/store")

    try:
        for listing in LISTINGS:
            fine(lab(*listing))
        answer = lab("run", "quick")
        told(answer, 1)
        told(lab("data", "prepare", "smoke"), 1)
    finally:
        if mounted:
            subprocess.run(["umount", where], check=True)

    assert "cannot be written" in answer.err
    assert leftovers(quick) == []


def shell(project, *arguments, **environment):
    """The command in a process of its own, whose whole environment is this."""
    known = {"PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}", **environment}
    return subprocess.run(
        [sys.executable, "-m", "lab", *arguments], cwd=project, env=known, capture_output=True, check=False
    )


@pytest.mark.parametrize(
    "environment",
    [{"HOME": "/nowhere/at/all"}, {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
     {"LC_ALL": "xx_YY.nonsense", "HOME": "/dev/null"}, {"TERM": "dumb", "COLUMNS": "0", "NO_COLOR": "1"}],
    ids=["no home", "C", "nonsense", "dumb"],
)  # fmt: skip
def test_without_a_home_and_in_any_locale_a_run_goes_through(quick, environment):
    text = QUICK.replace("One command", "na\u00efve \u2603")
    (quick / "experiments" / "quick.toml").write_text(text, encoding="utf-8")

    done = shell(quick, "run", "quick", **environment)
    shown = shell(quick, "runs", "show", "latest", **environment)

    assert done.returncode == 0, done.stderr
    assert b"Traceback" not in done.stderr + shown.stderr
    assert shown.returncode == 0, shown.stderr
    [run] = every(quick / ".runs")
    assert json.loads(run.config.read_bytes())["experiment"]["description"] == "na\u00efve \u2603"
    assert leftovers(quick) == []


@pytest.mark.parametrize(
    "line",
    [b'ACME_API_KEY="violet4anvil"', b"ACME_API_KEY='violet4anvil'", b"export ACME_API_KEY=violet4anvil",
     b"ACME_API_KEY=violet4anvil # of the lab", b"# keys\n\nACME_API_KEY=violet4anvil\n",
     b"ACME_API_KEY=violet4anvil\r\nX=1\r\n", b"  ACME_API_KEY = violet4anvil  "],
)  # fmt: skip
def test_a_key_in_the_env_file_reaches_its_stage_without_quotes_comments_or_line_ends(lab, project, monkeypatch, line):
    """CFG-06."""
    monkeypatch.setenv("ACME_API_KEY", "")
    monkeypatch.delenv("ACME_API_KEY")
    (project / "experiments" / "keyed.toml").write_text(FORWARDS)
    (project / ".env").write_bytes(line)

    fine(lab("run", "keyed"))

    [run] = every(read_settings().runs_folder)
    assert (run.path / "length.txt").read_text().strip() == "12"
    assert [path for path in run.path.rglob("*") if path.is_file() and b"violet4anvil" in path.read_bytes()] == []


def a_folder(path):
    path.mkdir()


def no_text(path):
    path.write_bytes(b"ACME=\xff\xfe\0")


@pytest.mark.parametrize("put", [a_circle, a_dangling_link, a_folder, no_text])
def test_an_env_file_that_cannot_be_read_is_named_before_anything_starts(lab, quick, put):
    put(quick / ".env")

    answer = lab("run", "quick")

    told(answer, 2)
    assert ".env" in answer.err
    assert not (quick / ".runs").exists()


def test_a_circle_of_extends_and_values_of_another_language_are_exit_2(lab, project):
    for name, text in {
        "one": 'extends = "two"', "two": 'extends = "one"', "own": 'extends = "own"',
        "yaml": "seed: 42",
        "yes": 'extends = "smoke"\ntrain.compile = yes', "word": 'extends = "smoke"\nseed = "forty-two"',
        "nothing": 'extends = "smoke"\nseed = null', "text": 'extends = "smoke"\ntrain.compile = "perhaps"',
    }.items():  # fmt: skip
        (project / "experiments" / f"{name}.toml").write_text(text)

        told(lab("check", name), 2)
        told(lab("run", name), 2)

    fine(lab("experiments"))
    assert every(read_settings().runs_folder) == []
    assert leftovers(project) == []
