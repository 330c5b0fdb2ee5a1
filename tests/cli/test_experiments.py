from __future__ import annotations

import json

import pytest
from terminals import in_a_terminal

CHAIN = {"root": 'loop = "x"\ntrain.steps = 1\n', "leaf": 'extends = "root"\nseed = 3\ntrain.steps = 2\n'}


@pytest.fixture
def experiments(project):
    folder = project / "experiments"
    for path in folder.glob("*.toml"):
        path.unlink()
    for name, text in CHAIN.items():
        (folder / f"{name}.toml").write_text(text + f'description = "The {name}"\ngroup = "family"\n')
    return folder


def test_each_experiment_stands_below_the_one_it_extends(lab, experiments):
    shown = lab("experiments").out.splitlines()

    assert [line.split() for line in shown[1:]] == [["root", "The", "root"], ["leaf", "seed,", "train", "The", "leaf"]]
    assert shown[2].startswith("  leaf")


@pytest.mark.parametrize(
    ("columns", "heading"), [(80, "EXPERIMENT DESCRIPTION"), (120, "EXPERIMENT CHANGES DESCRIPTION")]
)
def test_a_narrow_terminal_shows_descriptions_whole(experiments, columns, heading):
    words = " ".join(["word"] * 14)
    path = experiments / "leaf.toml"
    path.write_text(path.read_text().replace("The leaf", words))

    shown = in_a_terminal(columns, "experiments")

    assert shown.splitlines()[0].split() == heading.split()
    assert shown.count("word") == 14


def test_json_names_what_each_changes(lab, experiments):
    leaf = json.loads(lab("experiments", "--json").out)[0]

    assert (leaf["name"], leaf["extends"], leaf["group"]) == ("leaf", "root", "family")
    assert leaf["changes"] == ["seed", "train.steps"]


def test_a_broken_experiment_is_listed_with_its_fault_and_hides_no_other(lab, experiments):
    (experiments / "broken.toml").write_text("seed = = 3")
    (experiments / "circle.toml").write_text('extends = "circle"')

    shown = lab("experiments")

    assert shown.code == 0
    lines = {line.split()[0]: line for line in shown.out.splitlines()}
    assert "broken: experiments/broken.toml: is not valid TOML" in lines["broken"]
    assert "goes in a circle: circle -> circle" in lines["circle"]
    assert {"root", "leaf"} <= set(lines)


def test_a_project_without_experiments_says_so(lab, experiments):
    for path in experiments.glob("*.toml"):
        path.unlink()

    assert lab("experiments").out == "There is no experiment in experiments.\n"
    assert lab("experiments", "--json").out == "[]\n"


def test_one_is_shown_whether_or_not_its_plugins_are_installed(lab, experiments):
    shown = lab("experiments", "show", "leaf", "--set", "seed=4")

    assert shown.code == 0
    assert shown.out.startswith("leaf\nThe leaf\n")
    assert any(line.split() == ["seed", "4"] for line in shown.out.splitlines())
    assert json.loads(lab("experiments", "show", "leaf", "--json").out)["parts"] is None
