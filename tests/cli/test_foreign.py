from __future__ import annotations

import subprocess
import sys

import pytest

NOTHING = ""
GREET = "def greet(name: str = 'you'):\n    print('hello', name)\n"


def install(install_plugin, name, text, code=GREET):
    site = install_plugin(name, NOTHING, files={f"{name}_commands.py": code})
    with (site / f"lab_{name}-1.0.dist-info" / "entry_points.txt").open("ab") as file:
        file.write(b"[lab.commands]\n" + text)


@pytest.mark.parametrize("text", [b"x\xff = a:b\n", b"just text\n"])
def test_commands_in_a_damaged_file_leave_the_others_alone_and_are_pointed_out(lab, install_plugin, text):
    install(install_plugin, "good", b"greet = good_commands:greet\n")
    install(install_plugin, "bad", text)

    assert lab("greet").out == "hello you\n"
    assert lab("nosuch").err.splitlines()[-1].startswith("Error: No such command 'nosuch'")
    assert "  the commands of lab-bad 1.0 cannot be found: its entry_points.txt cannot be read: " in lab("plugins").out


def test_a_process_of_its_own_outlives_a_damaged_file_too(project, install_plugin):
    install(install_plugin, "good", b"greet = good_commands:greet\n")
    install(install_plugin, "bad", b"x\xff = a:b\n")
    code = f"import sys; sys.path[:0] = {sys.path[:2]!r}; import lab.cli; lab.cli.main()"

    done = subprocess.run([sys.executable, "-c", code, "greet"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, "hello you\n", "")


def test_a_command_whose_entry_point_is_damaged_says_so(lab, install_plugin):
    install(install_plugin, "bad", b"greet = !!bad\n")

    shown = lab("greet")

    assert shown.code == 1
    assert "Error: the command 'greet' of lab-bad 1.0 cannot be loaded: ValueError: its entry_points.txt" in shown.err


RAISING = "import typer\ndef greet():\n    print('begun')\n    {}\n"


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("raise ValueError('boom')", "ValueError: boom"),
        ("raise BaseException('boom')", "BaseException: boom"),
        ("raise GeneratorExit", "GeneratorExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
    ],
)
def test_a_command_that_raises_is_told_in_one_line_with_its_distribution(lab, install_plugin, raised, reason):
    install(install_plugin, "acme", b"greet = acme_commands:greet\n", RAISING.format(raised))

    shown = lab("greet")

    assert (shown.code, shown.out) == (1, "begun\n")
    assert shown.err == (
        f"Error: the command 'greet' of lab-acme 1.0 failed: {reason}\n"
        "It is a plugin's; report it to the authors of lab-acme. LAB_DEBUG=1 shows the traceback.\n"
    )


@pytest.mark.parametrize(
    ("raised", "code", "said"),
    [
        ("raise typer.Exit(9)", 9, ""),
        ("raise SystemExit(8)", 8, ""),
        ("raise typer.Abort", 1, "Aborted"),
        ("raise typer.BadParameter('not so')", 2, "not so"),
        ("from lab.errors import Refused; raise Refused('never')", 3, "Error: never\n"),
        ("open('nowhere')", 1, "Error: nowhere: No such file or directory\n"),
    ],
)
def test_how_a_command_means_to_end_is_left_to_it(lab, install_plugin, raised, code, said):
    install(install_plugin, "acme", b"greet = acme_commands:greet\n", RAISING.format(raised))

    shown = lab("greet")

    assert shown.code == code
    assert said in shown.err
    assert "lab-acme" not in shown.err


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("async def greet():\n    pass", "a command is a plain function: nobody would await"),
        ("def greet():\n    yield", "a command is a plain function: nobody would await"),
        (
            "class Command:\n    def __call__(self):\n        pass\ngreet = Command()",
            "a command is a typer.Typer or a function, not Command",
        ),
        ("class greet:\n    pass", "a command is a typer.Typer or a function, not type"),
    ],
)
def test_what_would_do_nothing_is_no_command(lab, install_plugin, code, reason):
    install(install_plugin, "acme", b"greet = acme_commands:greet\n", code)

    shown = lab("greet")

    assert shown.code == 1
    assert f"Error: the command 'greet' of lab-acme 1.0 cannot be loaded: TypeError: {reason}" in shown.err


def test_a_command_whose_module_leaves_the_folder_runs_where_it_was_typed(lab, install_plugin, project):
    code = "import os\nos.chdir('/')\nprint('imported')\ndef greet():\n    print(os.getcwd())\n"
    install(install_plugin, "acme", b"greet = acme_commands:greet\n", code)

    assert lab("greet").out == f"{project}\n"


@pytest.mark.parametrize("name", ["-x", "--help", "a b", "\x1b[31mred"])
def test_a_name_that_is_no_word_is_no_command(lab, install_plugin, name):
    install(install_plugin, "acme", f"{name} = acme_commands:greet\n".encode())

    shown = lab("plugins").out

    told = name.replace("\x1b", "\N{REPLACEMENT CHARACTER}")
    assert f"  command '{told}' of lab-acme 1.0 is never called: a name is one word and begins with no dash" in shown
    assert f"lab {told} (" not in shown
    assert lab(name).out != "hello you\n"
