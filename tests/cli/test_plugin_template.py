from __future__ import annotations

import inspect
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from lab.cli.plugin_template import KINDS
from lab.experiment import PartChoice
from lab.hookspecs import KINDS as ALL_KINDS
from lab.plugins import Plugins

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def made(lab, project, install_plugin):
    """A plugin made by the command, put where an installation would put it."""

    def made(kind):
        assert lab("plugins", "new", f"my-{kind}", "--kind", kind).code == 0
        folder = project / f"lab-my-{kind}"
        [module] = folder.glob("lab_*")
        files = {str(path.relative_to(folder)): path.read_text() for path in module.glob("*.py")}
        described = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        [(entry, value)] = described["entry-points"]["lab"].items()
        assert value == module.name
        site = install_plugin(entry, "", module="unused", files=files, distribution=described["name"])
        [info] = site.glob("*.dist-info")
        (info / "entry_points.txt").write_text(f"[lab]\n{entry} = {value}\n")
        return folder

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_plugin_is_found_and_keeps_its_contract(made, kind, request):
    folder = made(kind)

    plugin = next(plugin for plugin in Plugins().installed if plugin.name == f"my-{kind}")
    assert (plugin.error, plugin.warnings, plugin.parts[kind][0].name) == (None, (), f"my-{kind}")
    assert Plugins().options(kind, PartChoice(name=f"my-{kind}")) is not None
    [file] = (folder / "tests").glob("*.py")
    scope = {"__name__": "its_test"}
    exec(compile(file.read_text(), file, "exec"), scope)
    test = scope["test_it_keeps_the_contract"]
    test(**{name: request.getfixturevalue(name) for name in inspect.signature(test).parameters})


def test_new_plugins_are_written_as_our_own_are(lab, project):
    for kind in KINDS:
        lab("plugins", "new", f"my-{kind}", "--kind", kind)
    ruff = [sys.executable, "-m", "ruff"]
    light = "TID253"  # theirs are parts, like ours below plugins/
    style = ["--config", str(REPOSITORY / "pyproject.toml"), "--no-cache", *map(str, project.glob("lab-*/lab_*"))]

    checked = subprocess.run([*ruff, "check", "--ignore", light, *style], capture_output=True, text=True, check=False)
    formatted = subprocess.run([*ruff, "format", "--diff", *style], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout
    assert formatted.returncode == 0, formatted.stdout


def test_every_kind_but_a_backend_has_a_template():
    assert set(KINDS) == set(ALL_KINDS) - {"backend"}


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
        (["smooth", "--into", "experiments"], "experiments exists already"),
    ],
)
def test_what_cannot_be_made_is_said_and_nothing_is_left(lab, project, arguments, said):
    before = sorted(project.rglob("*"))

    shown = lab("plugins", "new", *arguments)

    assert (shown.code, said in shown.err) == (2, True)
    assert sorted(project.rglob("*")) == before
