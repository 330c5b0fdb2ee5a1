from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from installed import Environment
from strangers import imports_of_lab, own_tests, public_places

from lab.cli import plugin_template
from lab.cli.plugin_template import KINDS
from lab.conformance import Heard, listening_context
from lab.experiment import PartChoice
from lab.hookspecs import KINDS as ALL_KINDS
from lab.plugins import Plugins
from lab.report import embedding

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A package of each kind, installed by pip; what `lab plugins` says of them, and what their own tests said."""
    folder = tmp_path_factory.mktemp("made")
    packages = [folder / f"lab-my-{kind}" for kind in KINDS]
    for kind, package in zip(KINDS, packages, strict=True):
        plugin_template.create(f"my-{kind}", kind, package, Plugins())
    environment = Environment.create(folder / "environment")
    environment.pip("install", *packages)
    (folder / "project" / ".lab").mkdir(parents=True)
    listed = json.loads(environment.lab("plugins", "--json", project=folder / "project").stdout)["plugins"]
    # Most of what a backend's test takes is waiting, so the others need not wait for it.
    *rest, slow = sorted(packages, key=lambda package: package.name == "lab-my-backend")
    with own_tests(environment, [slow]) as backend, own_tests(environment, rest) as others:
        tested = others.communicate()[0] + backend.communicate()[0]
    return {plugin["name"]: plugin for plugin in listed}, tested


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_passes_its_own_tests_untouched_where_it_is_installed(installed, kind):
    _, tested = installed

    said = re.findall(rf"^(PASSED|FAILED|ERROR) \S*test_lab_my_{kind}\.py::(\S+)", tested, re.MULTILINE)

    assert ("PASSED", "test_it_keeps_the_contract") in said, tested
    assert {word for word, _ in said} == {"PASSED"}, tested


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_is_found_with_its_part_and_options(installed, kind):
    plugins, _ = installed
    plugin = plugins[f"my-{kind}"]

    assert (plugin["state"], plugin["warnings"], plugin["distribution"]) == ("loaded", [], f"lab-my-{kind}")
    [part] = plugin["parts"]
    assert (part["kind"], part["name"]) == (kind, f"my-{kind}")
    assert KINDS[kind].option in part["options"]


def test_new_plugins_are_written_as_our_own_are(lab, project):
    for kind in KINDS:
        lab("plugins", "new", f"my-{kind}", "--kind", kind)
    ruff = [sys.executable, "-m", "ruff"]
    light = "TID253"  # theirs are parts, like ours below plugins/
    written = [*project.glob("lab-*/lab_*"), *project.glob("lab-my-backend/tests")]
    style = ["--config", str(REPOSITORY / "pyproject.toml"), "--no-cache", *map(str, written)]

    checked = subprocess.run(
        [*ruff, "check", "--ignore", light, "--per-file-ignores", "**/tests/*:ANN,**/tests/*:D", *style],
        capture_output=True,
        text=True,
        check=False,
    )
    formatted = subprocess.run([*ruff, "format", "--diff", *style], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout
    assert formatted.returncode == 0, formatted.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_imports_from_public_places(kind, tmp_path):
    files = plugin_template.create(f"my-{kind}", kind, tmp_path / "package", Plugins())
    further = {"lab.runs.directory", "lab.runs.records", "lab.settings"} if kind == "tracker" else set()

    used = {name for file in files if file.suffix == ".py" for name in imports_of_lab(file.read_text())}

    assert used <= public_places() | further


def test_a_new_observer_puts_a_figure_into_the_report(install_plugin, tmp_path):
    files = plugin_template.create("drawer", "observer", tmp_path / "package", Plugins())
    sources = {path.relative_to(tmp_path / "package").as_posix(): path.read_text() for path in files}
    install_plugin("drawer", "", files={path: text for path, text in sources.items() if path.startswith("lab_drawer/")})
    (tmp_path / "run").mkdir()
    heard, observer = Heard(), Plugins().build("observer", PartChoice(name="drawer"))

    observer.run_started(listening_context(tmp_path / "run", heard))
    observer.step_finished(1, {"loss": 2.5})
    observer.run_finished(1)

    [(path, kind, title)] = heard.artifacts
    assert (kind, title) == ("figure", "Losses that drawer heard")
    assert embedding.block(path, title).address.startswith("data:image/svg+xml;")
    assert "loss, nats a token: 2.5" in path.read_text()


def test_every_kind_has_a_template():
    assert set(KINDS) == set(ALL_KINDS)


def test_a_backend_of_a_strangers_cloud_brings_its_own_variables(lab, project):
    lab("plugins", "new", "far-away", "--kind", "backend")

    assert "FAR_AWAY_KEY" in (project / "lab-far-away" / "lab_far_away" / "client.py").read_text()
    assert "`FAR_AWAY_KEY` is in `.env`" in (project / "lab-far-away" / "README.md").read_text()


def test_the_command_names_what_it_made_and_what_to_type_next(lab):
    shown = lab("plugins", "new", "smooth").out.splitlines()

    assert "lab-smooth/lab_smooth/loss.py" in shown
    assert shown[-1] == "Next: pip install -e 'lab-smooth[test]' && pytest lab-smooth && lab plugins"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["My_Loss"], "'My_Loss' cannot name a plugin"),
        (["../x"], "'../x' cannot name a plugin"),
        (["smooth", "--kind", "los"], "there is no template of 'los'\nDid you mean 'loss'?"),
        (["smooth", "--into", "experiments"], "experiments exists: a plugin begins in a folder of its own."),
        (["torch"], "'torch' is taken: a plugin 'torch' is installed (llm-training-lab "),
        (["chunked"], "'chunked' is taken: plugin torch (llm-training-lab "),
        (["sdpa", "--kind", "attention"], "offers an attention 'sdpa'"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_left(lab, project, arguments, said):
    before = sorted(project.rglob("*"))

    shown = lab("plugins", "new", *arguments)

    assert (shown.code, said in shown.err) == (2, True)
    assert sorted(project.rglob("*")) == before


def test_the_name_of_a_strangers_plugin_is_taken_too(lab, install_plugin):
    install_plugin("theirs", "X = 1", module="lab_ours", distribution="acme", version="2.0")

    for name in ("theirs", "ours"):
        shown = lab("plugins", "new", name)

        assert (shown.code, shown.err) == (
            2,
            f"Error: '{name}' is taken: a plugin 'theirs' is installed (acme 2.0)\n"
            f"Choose another name, as in my-{name}.\n",
        )


def test_a_module_that_is_no_plugin_is_not_hidden(lab, install_plugin, project):
    (install_plugin("theirs", "X = 1") / "lab_mine.py").touch()

    assert "a module lab_mine is installed" in lab("plugins", "new", "mine").err
    assert not (project / "lab-mine").exists()


def test_a_part_of_another_kind_is_no_hindrance(lab):
    assert lab("plugins", "new", "sdpa", "--kind", "loss").code == 0


def test_the_next_command_can_be_pasted_whatever_the_folder_is_called(lab):
    shown = lab("plugins", "new", "smooth", "--into", "my 'own' $HOME").out.splitlines()[-1]

    install, tests, _ = shown.removeprefix("Next: ").split(" && ")
    assert shlex.split(install) == ["pip", "install", "-e", "my 'own' $HOME[test]"]
    assert shlex.split(tests) == ["pytest", "my 'own' $HOME"]
