from __future__ import annotations

import json

import pytest

from lab.cli import experiment_view
from lab.experiment import Experiment, fingerprint

ACME = """
from lab import Part, hookimpl

@hookimpl
def loops():
    return [Part("acme", target="nowhere:Loop", options="acme_options:Options", extra="fast")]
"""
OPTIONS = "from pydantic import BaseModel\n\nclass Options(BaseModel):\n    rows: int = 3\n"
EXPERIMENT = """
description = "An experiment of a stranger's loop"
loop = "acme"
[train]
steps = 100_000
"""


@pytest.fixture
def acme(project, install_plugin):
    site = install_plugin("acme", ACME, files={"acme_options.py": OPTIONS})
    metadata = site / "lab_acme-1.0.dist-info" / "METADATA"
    needs = 'Provides-Extra: fast\nRequires-Dist: nowhere-kernels; extra == "fast"\n'
    metadata.write_text(metadata.read_text() + needs)
    (project / "experiments" / "mine.toml").write_text(EXPERIMENT)
    (project / "experiments" / "child.toml").write_text('extends = "mine"\nloop.rows = 5\n')
    return project


def test_it_shows_what_changed_what_it_resolves_to_and_what_it_needs(lab, acme):
    shown = lab("check", "child", "--set", "seed=7").out.splitlines()

    assert shown[:3] == [
        "child is a valid experiment",
        "An experiment of a stranger's loop",
        "experiments/child.toml extends experiments/mine.toml",
    ]
    assert any(line.split() == ["mine", "->", "child", "loop.rows", "-", "->", "5"] for line in shown)
    assert any(line.split() == ["child", "->", "--set", "seed", "42", "->", "7"] for line in shown)
    assert any(line.split() == ["loop", "acme", "(rows", "=", "5)"] for line in shown)
    assert any(line.split() == ["train.steps", "100_000"] for line in shown)
    assert any(line.split() == ["loop", "acme", "acme", "lab-acme", "1.0"] for line in shown)
    assert shown[-2] == "elsewhere    pip install 'lab-acme==1.0'"
    assert shown[-1] == "loop acme needs nowhere-kernels, not installed here: pip install 'lab-acme[fast]'"


def test_json_holds_the_same_and_comes_back_as_the_experiment(lab, acme):
    record = json.loads(lab("check", "child", "--json").out)

    experiment = Experiment.model_validate(record["experiment"])
    assert experiment.loop.options == {"rows": 5}
    assert record["fingerprint"] == fingerprint(experiment)
    assert record["declarations"] == [
        {"base": "mine", "child": "child", "changes": [{"key": "loop.rows", "before": None, "after": 5}]}
    ]
    assert record["parts"][0]["missing"] == ["nowhere-kernels"]
    assert [path.rpartition("/")[2] for path in record["files"]] == ["child.toml", "mine.toml"]


def test_the_fingerprint_covers_the_defaults_of_the_parts(lab, acme):
    said = json.loads(lab("check", "mine", "--set", "loop.rows=3", "--json").out)
    left_out = json.loads(lab("check", "mine", "--json").out)

    assert said["fingerprint"] == left_out["fingerprint"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mine", "--set", "loop.rovs=3"], "Error: --set: loop.rovs: unknown key. Did you mean 'rows'?"),
        (["mine", "--set", "optim.lrr=1e-4"], "Error: --set: optim: unknown key. Did you mean 'optimizer'?"),
        (["mine", "--set", "train.compile=maybe"], "Error: --set: train.compile: must be true or false, not 'maybe'"),
        (["mine", "--set", "loop=acmee"], "Error: --set: loop: no loop is called 'acmee'. Did you mean 'acme'?"),
        (["min"], "Error: no experiment is called 'min' in experiments\nDid you mean 'mine'?"),
        (["mine", "--set", "seed"], "Error: --set 'seed' is not key=value."),
    ],
)
def test_what_is_wrong_stops_with_exit_2(lab, acme, arguments, said):
    shown = lab("check", *arguments)

    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


@pytest.mark.parametrize("command", [["check", "smoke"], ["run", "smoke"], ["experiments"]])
def test_outside_a_project_it_says_where_to_go(lab, tmp_path, monkeypatch, command):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")

    shown = lab(*command)

    told = "That folder is not there: change to the folder of your project, or name it in LAB_PROJECT.\n"
    assert (shown.out + shown.err).endswith(told)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_in_a_terminal_lines_break_between_settings_only():
    section = {"learning_rate": 0.0003, "weight_decay": 0.1, "betas": [0.9, 0.95], "clip": 1.0}

    assert experiment_view._phrases(section, 40).plain.splitlines() == [
        "learning_rate 0.0003   weight_decay 0.1",
        "betas 0.9, 0.95   clip 1.0",
    ]


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        (None, "-"),
        (True, "true"),
        (0.0003, "0.0003"),
        (8_000_000, "8_000_000"),
        (20261003, "20261003"),
        ([0.9, 0.95], "0.9, 0.95"),
        ([], "none"),
        ({}, "on"),
        ({"steps": [21, 22], "stacks": False}, "steps = [21, 22], stacks = false"),
    ],
)
def test_settings_are_written_as_people_write_them(setting, text):
    assert experiment_view.value(setting) == text
