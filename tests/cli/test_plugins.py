from __future__ import annotations

import json

import pytest

ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="nowhere:Loss", summary="A sum of mine.", options="acme_options:Options")]

def loops():
    return []
"""
OPTIONS = """
from pydantic import BaseModel

class Options(BaseModel):
    path: str
    rows: int = 1024
    fast: bool = False
"""


@pytest.fixture
def acme(install_plugin):
    install_plugin("acme", ACME, files={"acme_options.py": OPTIONS}, commands={"greet": "nowhere:greet"}, version="2.1")
    install_plugin("broken", "raise ImportError('libcuda.so.1: no such file')", distribution="lab-broken")


def test_every_plugin_is_listed_with_its_parts_and_a_broken_one_with_its_reason(lab, acme):
    shown = lab("plugins")

    lines = [line.split() for line in shown.out.splitlines()]
    assert ["acme", "A", "sum", "of", "mine.", "acme", "(lab-acme", "2.1)"] in [line[-8:] for line in lines]
    assert "  broken (lab-broken 1.0): broken: ImportError: libcuda.so.1: no such file" in shown.out.splitlines()
    assert "  acme (lab-acme 2.1): loops() has no @hookimpl above it, so it is never called" in shown.out.splitlines()
    assert "  lab greet (lab-acme 2.1)" in shown.out.splitlines()
    assert (shown.code, shown.err) == (0, "")


def test_options_are_shown_with_their_defaults(lab, acme):
    lines = [line.strip() for line in lab("plugins", "--options").out.splitlines()]

    at = next(index for index, line in enumerate(lines) if "A sum of mine." in line)
    assert lines[at + 1 : at + 4] == ["path = (required)", "rows = 1024", "fast = false"]


def test_json_holds_everything(lab, acme):
    record = json.loads(lab("plugins", "--json").out)

    plugins = {plugin["name"]: plugin for plugin in record["plugins"]}
    assert plugins["acme"]["parts"] == [
        {
            "kind": "loss",
            "name": "acme",
            "summary": "A sum of mine.",
            "target": "nowhere:Loss",
            "extra": None,
            "options": {"path": "(required)", "rows": "1024", "fast": "false"},
            "error": None,
        }
    ]
    assert (plugins["acme"]["distribution"], plugins["acme"]["version"]) == ("lab-acme", "2.1")
    assert (plugins["broken"]["state"], plugins["broken"]["parts"]) == ("broken", [])
    assert plugins["torch"]["third_party"] is False
    assert {"name": "greet", "from": "lab-acme 2.1"} in record["commands"]


def test_no_line_of_the_options_is_wider_than_80_columns_and_what_is_cut_is_in_json(lab, install_plugin):
    text = "long " * 100
    options = f"from pydantic import BaseModel\n\nclass Options(BaseModel):\n    words: str = {text!r}\n"
    install_plugin("acme", ACME, files={"acme_options.py": options})

    lines = lab("plugins", "--options").out.splitlines()
    [acme] = [one for one in json.loads(lab("plugins", "--json").out)["plugins"] if one["name"] == "acme"]

    shown = [line for line in lines if line.startswith("    ")]
    assert len(shown) > 20
    assert [line for line in shown if len(line) > 80] == []
    assert acme["parts"][0]["options"] == {"words": json.dumps(text)}


def test_commands_that_nobody_can_call_are_pointed_out(lab, install_plugin):
    install_plugin("one", ACME, commands={"check": "x:y", "greet": "x:y"})
    install_plugin("two", ACME, commands={"greet": "x:z"})

    lines = lab("plugins").out.splitlines()

    assert "  command 'check' of lab-one 1.0 is never called: lab has one of this name" in lines
    assert "  command 'greet' is offered twice, so it cannot be used: lab-one 1.0 and lab-two 1.0" in lines


def test_a_blocked_plugin_is_listed_as_blocked(lab, acme, monkeypatch):
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "acme")

    assert "  acme (lab-acme 2.1): blocked by LAB_BLOCKED_PLUGINS" in lab("plugins").out.splitlines()


def test_a_part_that_two_plugins_offer_is_pointed_out(lab, acme, install_plugin):
    install_plugin("again", ACME.replace("def loops", "def unused"))

    assert (
        "  loss 'acme' is offered twice, so it cannot be used: acme (lab-acme 2.1) and again (lab-again 1.0)"
        in lab("plugins").out.splitlines()
    )


def test_a_plugin_without_parts_is_pointed_out_unless_stages_can_run_it(lab, install_plugin):
    install_plugin("empty", "")

    lines = lab("plugins").out.splitlines()

    assert "  empty (lab-empty 1.0) offers no part" in lines
    assert [line for line in lines if line.startswith("  python -m lab_quantise (") and line.endswith(", for stages")]
    assert not [line for line in lines if line.startswith("  quantise ")]
