from __future__ import annotations

import os

import pytest

from lab.errors import UsageError
from lab.experiment import listed, load, names

TEXT = '[[stages]]\nname = "only"\nrun = ["true"]\n'


def broken_folder(path):
    path.mkdir()


def broken_link(path):
    path.symlink_to(path.parent / "nowhere")


def broken_pipe(path):
    os.mkfifo(path)


def misnamed(path):
    path.write_text(TEXT)


UNUSABLE = {
    "folder": (broken_folder, "is a folder, not a file"),
    "link": (broken_link, "is a link to nothing"),
    "pipe": (broken_pipe, "is no regular file"),
    "two words": (misnamed, "becomes part of its runs' names"),
    "-dash": (misnamed, "becomes part of its runs' names"),
}


@pytest.fixture
def unusable(project):
    """Files of experiments that cannot be used, each with its name; and one beside them that can."""
    folder = project / "experiments"
    for name, (make, _) in UNUSABLE.items():
        make(folder / f"{name}.toml")
    return folder


@pytest.mark.parametrize("name", UNUSABLE)
@pytest.mark.parametrize("asked", ["by name", "by path", "by a child"])
def test_a_file_that_cannot_be_used_is_told_as_that_and_nothing_is_guessed(unusable, name, asked):
    (unusable / "child.toml").write_text(f'extends = "{name}"\n')
    asking = {"by name": name, "by path": str(unusable / f"{name}.toml"), "by a child": "child"}

    with pytest.raises(UsageError) as refused:
        load(asking[asked], unusable)

    asker = f"{unusable / 'child.toml'}: extends: " if asked == "by a child" else ""
    assert refused.value.what.startswith(f"{asker}{unusable / f'{name}.toml'}: ")
    assert UNUSABLE[name][1] in refused.value.what
    assert "Did you mean" not in refused.value.do


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_name_near_a_file_that_cannot_be_used_does_not_propose_it(unusable, name):
    with pytest.raises(UsageError) as refused:
        load(f"{name}x", unusable)

    assert f"'{name}'" not in refused.value.do
    assert f"{name}," not in refused.value.do


def test_only_what_can_be_used_has_a_name_and_the_listing_says_what_is_wrong_with_the_rest(unusable, lab):
    (unusable / ".#smoke.toml").symlink_to("somebody@somewhere")  # an editor's lock

    shown = lab("experiments")

    assert set(listed(unusable)) - set(names(unusable)) == set(UNUSABLE)
    for name, (_, told) in UNUSABLE.items():
        line = next(line for line in shown.out.splitlines() if line.startswith(f"{name} "))
        assert f"broken: experiments/{name}.toml: " in line
        assert told in line


def test_a_link_gives_an_experiment_a_name_of_its_own(project, tmp_path):
    (tmp_path / "kept elsewhere.toml").write_text(TEXT)
    (project / "experiments" / "linked.toml").symlink_to(tmp_path / "kept elsewhere.toml")

    assert load("linked", project / "experiments").experiment.name == "linked"
