"""The command line as a whole: help, versions, errors and the commands of plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.abc import MetaPathFinder
from importlib.metadata import entry_points, version

import pytest
import sample_runs

from lab.cli import failures, main
from lab.errors import AskedToStop, Interrupted, LabError, Refused, Regression, StillBilling, UsageError

PROGRAM = [sys.executable, "-m", "lab"]
COMMANDS = """
import typer

def greet(name: str, shout: bool = False):
    \"\"\"Greet somebody.\"\"\"
    print(("HELLO " if shout else "hello ") + name)

app = typer.Typer()

@app.command()
def one():
    \"\"\"One.\"\"\"
    print("one")

@app.command()
def two():
    \"\"\"Two.\"\"\"
    raise SystemExit(7)
"""
NOTHING = "from lab import hookimpl\n"


def test_help_lists_the_commands_and_then_the_groups(lab):
    shown = lab("--help")

    assert shown.code == 0
    before, _, groups = shown.out.partition("\nGroups:\n")
    single = before.partition("\nCommands:\n")[2]
    assert "  check " in single
    assert "  experiments " in groups


def test_the_version_is_the_distributions(lab):
    assert lab("--version").out == f"lab {version('llm-training-lab')}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chek"], "Did you mean 'check'?"),
        (["experiments", "shw"], "Did you mean 'show'?"),
        (["check", "smoke", "--jsn"], "--jsn"),
        (["check"], "Missing argument"),
    ],
)
def test_a_command_line_that_is_wrong_exits_with_2(lab, arguments, said):
    shown = lab(*arguments)

    assert (shown.code, shown.out) == (2, "")
    assert said in shown.err


def test_a_bare_group_lists_and_takes_the_options_of_its_list(lab):
    assert lab("experiments").out == lab("experiments", "list").out
    assert lab("experiments", "--json").out == lab("experiments", "list", "--json").out
    assert "Usage: lab experiments [OPTIONS]" in lab("experiments", "--help").out
    assert "Usage: lab experiments [OPTIONS]" in lab("experiments", "-h").out


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (LabError, 1),
        (UsageError, 2),
        (Refused, 3),
        (Regression, 4),
        (StillBilling, 5),
        (Interrupted, 130),
        (AskedToStop, 143),
    ],
)
def test_an_error_says_what_and_what_to_do_and_exits_with_its_code(project, capsys, kind, code):
    assert failures.explain(kind("it broke", "Mend it.")) == code
    assert capsys.readouterr().err == "Error: it broke\nMend it.\n"


def test_an_error_names_files_as_they_can_be_typed_from_here(project, capsys):
    failures.explain(LabError(f"{project / 'experiments' / 'x.toml'}: broken", f"Look into {project / '.lab'}."))

    assert capsys.readouterr().err == "Error: experiments/x.toml: broken\nLook into .lab.\n"


def test_a_full_disk_is_no_bug(project, capsys):
    assert failures.explain(OSError(28, "No space left on device", "/store/x")) == 1
    assert capsys.readouterr().err == "Error: /store/x: No space left on device\n"


def test_a_bug_is_called_one_and_shows_no_traceback_unless_asked(project, capsys, monkeypatch):
    def broken():
        raise KeyError("missing\nthing")

    try:
        broken()
    except KeyError as error:
        caught = error

    assert failures.explain(caught) == 1
    short = capsys.readouterr().err
    assert short.startswith(
        "Error: this is a bug in lab or in a plugin, not in what you typed: KeyError in cli/test_main"
    )
    assert short.endswith("Set LAB_DEBUG=1 to see the traceback, and report it with the command.\n")
    assert "Traceback" not in short

    (project / ".env").write_text("LAB_DEBUG=1\n")
    assert failures.explain(caught) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


def test_a_bug_of_a_plugin_is_called_the_plugins(project, capsys, install_plugin):
    install_plugin("acme", NOTHING + "def broken():\n    raise KeyError('x')\n")
    from lab_acme import broken

    try:
        broken()
    except KeyError as error:
        caught = error

    assert failures.explain(caught) == 1
    assert capsys.readouterr().err.startswith(
        "Error: this is a bug in plugin acme (lab-acme 1.0), lab_acme.py:3, not in what you typed: KeyError in "
    )


def test_bad_settings_are_said_like_any_other_error(lab, monkeypatch):
    monkeypatch.setenv("LAB_TRACE_PLUGINS", "maybe")

    shown = lab("plugins")

    assert shown.code == 2
    assert shown.err.startswith("Error: LAB_TRACE_PLUGINS: ")


def test_control_characters_do_not_reach_the_terminal(project, capsys):
    failures.explain(LabError("\x1b[2J\x07gone"))

    assert "\x1b" not in capsys.readouterr().err


def test_ctrl_c_exits_with_130(lab, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("lab.settings.read_settings", interrupted)

    assert lab("experiments").code == 130


def test_ctrl_c_while_the_command_is_still_being_read_is_quiet(monkeypatch):
    class Interrupting(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "lab.cli":
                raise KeyboardInterrupt

    for name in [name for name in sys.modules if name.startswith("lab.cli")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    (script,) = entry_points(group="console_scripts", name="lab")

    with pytest.raises(SystemExit) as ended:
        script.load()()

    assert ended.value.code == 130


@pytest.mark.parametrize("command", [["experiments", "--json"], ["plugins"]])
def test_a_reader_that_has_seen_enough_ends_the_command_quietly(project, command):
    reading, writing = os.pipe()
    os.close(reading)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    done = subprocess.run([*PROGRAM, *command], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)

    assert done.returncode == 141
    assert done.stderr == b""


def test_a_terminal_without_unicode_shows_stand_ins(project):
    (project / "experiments" / "odd.toml").write_text(
        'extends = "smoke"\ndescription = "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve \N{SNOWMAN}"\n', encoding="utf-8"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*PROGRAM, "experiments"], env=environment, capture_output=True, text=True, check=True)

    assert "na\\xefve \\u2603" in done.stdout


def test_a_plugins_command_is_imported_only_when_it_is_called(lab, install_plugin):
    commands = {"greet": "acme_commands:greet", "numbers": "acme_commands:app"}
    install_plugin("acme", NOTHING, commands=commands, files={"acme_commands.py": COMMANDS})

    assert lab("--help").code == 0
    assert "acme_commands" not in sys.modules
    assert lab("greet", "you", "--shout").out == "HELLO you\n"
    assert lab("numbers", "one").out == "one\n"
    assert lab("numbers", "two").code == 7
    assert "Usage: lab greet" in lab("greet", "--help").out


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
        ("greet = 3", "TypeError: a command is a typer.Typer or a function, not int"),
        ("", "AttributeError: module 'acme_commands' has no attribute 'greet'"),
    ],
)
def test_a_command_that_cannot_be_loaded_shows_its_reason_whatever_follows_it(lab, install_plugin, code, reason):
    install_plugin("acme", NOTHING, commands={"greet": "acme_commands:greet"}, files={"acme_commands.py": code})

    shown = lab("greet", "--x", "1", "y")

    assert shown.code == 1
    assert f"Error: the command 'greet' of lab-acme 1.0 cannot be loaded: {reason}" in shown.err
    assert lab("--help").code == 0


def test_two_plugins_of_one_command_are_both_named(lab, install_plugin):
    install_plugin("one", NOTHING, commands={"greet": "x:y"})
    install_plugin("two", NOTHING, commands={"greet": "x:z"})

    shown = lab("greet")

    assert shown.code == 1
    assert "Error: two plugins offer the command 'greet': lab-one 1.0 and lab-two 1.0" in shown.err


def test_a_plugin_cannot_take_the_place_of_our_own_command(lab, install_plugin):
    install_plugin("acme", NOTHING, commands={"check": "nowhere:check"})

    assert "Check an experiment" in lab("check", "--help").out


def test_a_broken_plugin_leaves_every_other_command_alone(lab, install_plugin, project):
    install_plugin("broken", "raise ImportError('no such symbol')", distribution="lab-broken")
    run = sample_runs.write(project / ".runs").id

    assert lab("--help").code == lab("--version").code == lab("experiments").code == lab("report", run).code == 0
    warning = "Warning: plugin broken (lab-broken 1.0) is broken: ImportError: no such symbol"
    assert warning in lab("check", "chapter02").err.splitlines()
    assert lab("check", "chapter02").code == 0


def test_python_dash_m_lab_is_the_same_command(project):
    done = subprocess.run([*PROGRAM, "--version"], capture_output=True, text=True, check=True)

    assert done.stdout == f"lab {version('llm-training-lab')}\n"


def test_main_is_what_the_script_calls():
    assert main.__module__ == "lab.cli"


def test_what_is_in_the_way_of_a_folder_is_named(project, capsys):
    assert failures.explain(FileExistsError(17, "File exists", str(project / ".lab" / "x"))) == 1
    assert capsys.readouterr().err == "Error: .lab/x: File exists\n"

    assert failures.explain(NotADirectoryError(20, "Not a directory", "/dev/null/x")) == 1
    assert capsys.readouterr().err.startswith("Error: /dev/null/x: no folder can be there: /dev/null is not a folder\n")
