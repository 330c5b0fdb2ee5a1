from __future__ import annotations

import pytest

from lab.experiment import PartChoice
from lab.plugins import Plugins, blame

HOOKS = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("{name}", target="lab_{name}.part:Loss")]
"""
LOSS = """
import json
from json.decoder import JSONDecodeError

class Loss:
    def __init__(self, options):
        self.inner = None

    def __call__(self, text):
        return self.inner(text) if self.inner else json.loads(text)
"""


@pytest.fixture
def parts(install_plugin):
    for name in ("inner", "outer"):
        files = {f"lab_{name}/__init__.py": HOOKS.format(name=name), f"lab_{name}/part.py": LOSS}
        install_plugin(name, "", files=files)
    plugins = Plugins()
    return plugins, *(plugins.build("loss", PartChoice(name=name)) for name in ("inner", "outer"))


def raised(function, *arguments):
    with pytest.raises(ValueError, match="Expecting") as caught:
        function(*arguments)
    return caught.value


def test_what_a_library_raised_is_told_with_the_plugin_that_called_it(parts):
    plugins, inner, _ = parts

    said = blame.told(raised(inner, "{"), plugins.installed)

    assert said.startswith("JSONDecodeError: Expecting property name")
    assert said.endswith("(in plugin inner (lab-inner 1.0), part.py:10)")


def test_a_plugin_that_called_another_one_is_named_behind_it(parts):
    plugins, inner, outer = parts
    outer.inner = inner

    where = blame.place(raised(outer, "{"), plugins.installed)

    assert where == "in plugin inner (lab-inner 1.0), part.py:10, called by plugin outer (lab-outer 1.0), part.py:10"


def test_what_no_plugin_raised_is_blamed_on_none():
    installed = Plugins().installed
    error = raised(__import__("json").loads, "{")

    assert blame.place(error, installed) == ""
    assert blame.told(KeyboardInterrupt(), installed) == "KeyboardInterrupt"
