"""Code of plugins that changes the working directory: what lab finds, and what a person typed, stays where it was."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import sample_runs

from lab.errors import UsageError
from lab.here import here, remembered, staying
from lab.plugins import Plugins
from lab.settings import read_settings

MOVES = "import os\nfrom lab import Part, hookimpl\nos.chdir('/')\n"
PART = """
@hookimpl
def losses():
    return [Part("acme", "lab_acme:Acme")]

class Acme:
    def __init__(self, options):
        os.chdir("/")
"""


def test_a_plugin_that_leaves_on_import_is_put_back_and_named(project, install_plugin):
    install_plugin("acme", MOVES)

    [acme] = [plugin for plugin in Plugins().installed if plugin.name == "acme"]

    assert Path.cwd() == project
    assert acme.warnings == ("it changed the working directory, which lab put back",)


def test_a_part_that_leaves_while_it_is_built_is_put_back(project, install_plugin):
    install_plugin("acme", MOVES.replace("os.chdir('/')", "") + PART)
    from lab.experiment import PartChoice

    Plugins().build("loss", PartChoice(name="acme"))

    assert Path.cwd() == project


def test_settings_stay_whatever_happens_to_the_working_directory_later(project, monkeypatch):
    for name, value in {"LAB_STORE": "store", "LAB_RUNS": "../runs"}.items():
        monkeypatch.setenv(name, value)
    with remembered():
        before = read_settings()
        os.chdir("/")
        after = read_settings()
        monkeypatch.setenv("LAB_PROJECT", ".")
        named = read_settings()

    assert (after.project, after.store_folder, after.runs_folder) == (
        project,
        before.store_folder,
        before.runs_folder,
    )
    assert named.project == project
    assert here() == Path("/")


def test_a_path_that_was_typed_means_the_folder_in_which_it_was_typed(lab, project, install_plugin):
    install_plugin("acme", MOVES)
    run = sample_runs.write(project / "elsewhere")

    made = lab("plugins", "new", "mine", "--into", "made")
    refused = lab("resume", f"./elsewhere/{run.id}")

    assert made.code == 0, made.err
    assert (project / "made" / "pyproject.toml").is_file()
    assert "has completed" in refused.err


def test_a_folder_that_was_removed_is_no_reason_to_fail_before_it_is_needed(project):
    gone = project / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()

    with remembered(), staying() as moved:
        os.chdir("/")

    assert moved
    with remembered(), pytest.raises(UsageError, match="the working directory no longer exists"):
        read_settings()
    os.chdir(project)
