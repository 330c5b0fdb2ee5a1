"""The house as docs/architecture.md describes it: who may import whom, what stays light, what must be documented."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
import typer
from pydantic_settings import BaseSettings
from typer.core import TyperGroup

from lab.cli import app
from lab.plugins import Plugins

REPOSITORY = Path(__file__).parent.parent
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
ENTRY_POINTS = {**PROJECT["project"]["entry-points"]["lab"]}
PLUGIN_FOLDERS = sorted(path.name for path in (REPOSITORY / "plugins").iterdir() if path.name.startswith("lab_"))
SNAPSHOTS = REPOSITORY / "tests" / "snapshots" / "help"

HEAVY = {"torch", "mlflow", "wandb", "transformers", "datasets"}
HEAVY_FOR_HELP = HEAVY | {"pydantic", "pydantic_settings", "pyarrow", "httpx", "numpy", "rich", "logging"}
CONTROLLER = ("cli", "launch", "report", "compare", "rental", "plugins", "data", "jobs", "runs", "experiment")

# What a plugin may import of lab, by the kinds of part that it offers (docs/architecture.md, section 3).
ANY_PLUGIN = {"", "contracts", "experiment", "runs", "errors", "settings", "hookspecs"}
BY_KIND = {"backend": {"jobs", "rental"}, "source": {"data"}, "loop": {"data", "training"}}


def run_python(code, **environment):
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def loaded_by(arguments):
    """The top-level modules in memory after one command line."""
    code = f"""
import sys
sys.argv = ["lab", *{arguments!r}]
from lab.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    print("\\nLOADED", *sorted({{name.partition(".")[0] for name in sys.modules}}))
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("LOADED")[2].split())


def test_help_loads_next_to_nothing():
    assert not loaded_by(["--help"]) & HEAVY_FOR_HELP


@pytest.mark.parametrize("arguments", [["--version"], ["run", "--help"], ["runs", "--help"], ["experiments", "--help"]])
def test_help_of_a_command_loads_little(arguments):
    assert not loaded_by(arguments) & (HEAVY_FOR_HELP - {"logging", "pydantic"})  # typer parses with pydantic


@pytest.mark.parametrize("arguments", [["plugins"], ["plugins", "--options"], ["experiments"], ["check", "chapter02"]])
def test_what_a_laptop_asks_loads_no_library_of_training(project, arguments):
    assert not loaded_by(arguments) & HEAVY


def test_no_module_of_the_controller_loads_a_library_of_training():
    modules = [
        ".".join(path.relative_to(REPOSITORY / "src").with_suffix("").parts).removesuffix(".__init__")
        for room in CONTROLLER
        for path in (REPOSITORY / "src" / "lab" / room).rglob("*.py")
    ]
    hooks = [f"lab_{folder.removeprefix('lab_')}" for folder in PLUGIN_FOLDERS]
    code = f"""
import importlib, sys
for name in {[*modules, *hooks]!r}:
    importlib.import_module(name)
    heavy = {HEAVY!r} & set(sys.modules)
    assert not heavy, f"{{name}} loads {{heavy}}"
"""
    done = run_python(code)

    assert done.returncode == 0, done.stderr.splitlines()[-1]


def test_every_plugin_folder_has_an_entry_point_and_every_entry_point_a_folder():
    assert sorted(ENTRY_POINTS.values()) == PLUGIN_FOLDERS


def test_the_name_of_a_plugin_is_that_of_its_folder():
    assert all(module == "lab_" + name.replace("-", "_") for name, module in ENTRY_POINTS.items())


def test_the_installed_entry_points_are_those_of_the_project():
    installed = {
        entry.name: entry.value for entry in distribution("llm-training-lab").entry_points if entry.group == "lab"
    }

    assert installed == ENTRY_POINTS, "entry points are copied at installation: run `pip install -e .` again"


def test_every_plugin_of_ours_loads_without_a_word():
    plugins = [plugin for plugin in Plugins().installed if not plugin.third_party]

    assert [(plugin.name, plugin.error, plugin.warnings) for plugin in plugins if plugin.error or plugin.warnings] == []
    assert not [
        part.name for plugin in plugins for parts in plugin.parts.values() for part in parts if not part.summary
    ]


def test_every_part_of_ours_has_its_class_and_its_options():
    """Without importing a part: a laptop has none of its libraries."""
    for plugin in Plugins().installed:
        for parts in plugin.parts.values() if not plugin.third_party else ():
            for target in filter(None, (text for part in parts for text in (part.target, part.options))):
                module, _, name = target.partition(":")
                file = REPOSITORY / "plugins" / Path(*module.split(".")).with_suffix(".py")
                classes = [node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.ClassDef)]
                assert name in classes, target


def imported(path):
    """Every module that a file imports, wherever it stands in the file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize("folder", PLUGIN_FOLDERS)
def test_a_plugin_knows_the_contracts_and_itself(folder):
    kinds = {kind for plugin in Plugins().installed if plugin.module == folder for kind in plugin.parts}
    allowed = ANY_PLUGIN.union(*(BY_KIND.get(kind, set()) for kind in kinds))
    for path in (REPOSITORY / "plugins" / folder).rglob("*.py"):
        for name in imported(path):
            root, _, rest = name.partition(".")
            room = rest.partition(".")[0]
            if root == "lab" and (REPOSITORY / "src" / "lab" / room).is_dir():
                assert room in allowed, f"{path.name} imports {name}"
            assert not (root.startswith("lab_") and root != folder), f"{path.name} imports another plugin: {name}"


def test_the_core_names_no_plugin():
    named = re.compile(rf"\b({'|'.join(PLUGIN_FOLDERS)})\b")
    for path in (REPOSITORY / "src").rglob("*.py"):
        found = named.search(path.read_text(encoding="utf-8"))
        assert found is None, f"{path.relative_to(REPOSITORY)} names {found and found.group()}"


def test_the_floors_hold():
    script = Path(sys.executable).parent / "lint-imports"
    done = subprocess.run([script, "--no-cache"], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout


def test_every_module_says_in_one_sentence_what_it_is_for():
    for top in ("src", "plugins"):
        for path in (REPOSITORY / top).rglob("*.py"):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first = text.partition("\n")[0]
            assert first.endswith((".", ":")), f"{path.relative_to(REPOSITORY)}: {first!r}"


def commands(command, path=("lab",)):
    yield path, command
    if isinstance(command, TyperGroup):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


COMMANDS = {" ".join(path): command for path, command in commands(typer.main.get_command(app))}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_each_of_its_options_has_help(name):
    command = COMMANDS[name]

    assert command.help
    assert [parameter.name for parameter in command.params if not getattr(parameter, "help", None)] == []


@pytest.mark.parametrize("name", [name for name in COMMANDS if isinstance(COMMANDS[name], TyperGroup)])
def test_a_terminal_of_80_columns_cuts_no_line_of_a_listing(name, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    assert [line for line in lab(*name.split()[1:], "--help").out.splitlines() if line.endswith("...")] == [
        f"Usage: {name} [OPTIONS] COMMAND [ARGS]..."
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_what_it_was(name, lab, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    snapshot = SNAPSHOTS / f"{name.replace(' ', '-')}.txt"

    shown = lab(*name.split()[1:], "--help").out

    if os.environ.get("UPDATE_SNAPSHOTS"):
        snapshot.parent.mkdir(parents=True, exist_ok=True)
        snapshot.write_text(shown, encoding="utf-8")
    assert shown == snapshot.read_text(encoding="utf-8"), "UPDATE_SNAPSHOTS=1 pytest tests/test_architecture.py"


def test_no_snapshot_is_left_of_a_command_that_is_gone():
    assert {path.stem for path in SNAPSHOTS.glob("*.txt")} == {name.replace(" ", "-") for name in COMMANDS}


def settings_classes():
    """Every class of settings in the core and the plugins."""
    for top in ("src", "plugins"):
        for path in (REPOSITORY / top).rglob("*.py"):
            if "BaseSettings" in path.read_text(encoding="utf-8"):
                name = ".".join(path.relative_to(REPOSITORY / top).with_suffix("").parts).removesuffix(".__init__")
                module = importlib.import_module(name)
                for _, found in inspect.getmembers(module, inspect.isclass):
                    if issubclass(found, BaseSettings) and found.__module__ == name:
                        yield found


def variables(settings):
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        alias = field.validation_alias
        choices = getattr(alias, "choices", [alias]) if alias else [f"{prefix}{name}"]
        yield from (str(choice).upper() for choice in choices if str(choice) != name)


def test_every_setting_is_in_the_example():
    example = (REPOSITORY / ".env.example").read_text(encoding="utf-8")
    missing = [
        variable
        for settings in settings_classes()
        for variable in variables(settings)
        if not re.search(rf"^# {variable}=", example, flags=re.MULTILINE)
    ]

    assert missing == []


def test_every_plugin_is_in_the_list_of_plugins():
    listed = (REPOSITORY / "plugins" / "README.md").read_text(encoding="utf-8")

    assert [folder for folder in PLUGIN_FOLDERS if f"`{folder}`" not in listed] == []


def test_the_hooks_of_a_plugin_stand_alone():
    """A plugin's `__init__` is imported on every laptop: hooks, constants, and imports of `lab` only."""
    for folder in PLUGIN_FOLDERS:
        path = REPOSITORY / "plugins" / folder / "__init__.py"
        roots = {name.partition(".")[0] for name in imported(path)}
        assert roots <= {"lab", "__future__", folder}, f"{folder} imports {roots}"
