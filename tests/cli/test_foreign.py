from __future__ import annotations

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


def test_a_command_whose_entry_point_is_damaged_says_so(lab, install_plugin):
    install(install_plugin, "bad", b"greet = !!bad\n")

    shown = lab("greet")

    assert shown.code == 1
    assert "Error: the command 'greet' of lab-bad 1.0 cannot be loaded: ValueError: its entry_points.txt" in shown.err
