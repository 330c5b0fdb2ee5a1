"""Options models of strangers: whatever their code does, the part's plugin is named and nobody else is hurt."""

from __future__ import annotations

import json
import signal

import pytest

from lab.experiment import PartChoice
from lab.plugins import BrokenPart, NoDefault, Plugins

ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="nowhere:Loss", summary="A sum of mine.", options="acme_options:Options")]
"""
HEAD = "from typing import Any\nfrom pydantic import BaseModel, Field, field_validator, field_serializer\n"
MODEL = HEAD + "class Options(BaseModel):\n    rows: int = 3\n"
VALIDATOR = MODEL + "    @field_validator('rows', mode='before')\n    def check(cls, value):\n        {}\n"
SERIALIZER = MODEL + "    @field_serializer('rows')\n    def write(self, value):\n        {}\n"
OWNED = "the loss 'acme' of plugin acme (lab-acme 1.0)"


@pytest.fixture
def with_options(install_plugin):
    def install(code):
        install_plugin("acme", ACME, files={"acme_options.py": code})
        return Plugins()

    return install


def options_of(plugins, **options):
    return plugins.options("loss", PartChoice(name="acme", **options))


@pytest.mark.parametrize(
    ("raised", "reason"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
        ("raise BaseException('x')", "BaseException: x"),
        ("raise RuntimeError('x')", "RuntimeError: x"),
        ("raise RuntimeError('x' * 1_000_000)", f"RuntimeError: {'x' * 486} ..."),
    ],
)
def test_a_validator_that_raises_is_its_plugins_fault(with_options, raised, reason):
    plugins = with_options(VALIDATOR.format(raised))

    with pytest.raises(BrokenPart) as caught:
        options_of(plugins, rows=2)

    assert caught.value.what == f"the options of {OWNED} cannot be checked: {reason}"
    assert caught.value.exit_code == 1


def test_a_persons_ctrl_c_while_options_are_checked_ends_the_command(with_options):
    plugins = with_options(VALIDATOR.format("import signal; signal.raise_signal(signal.SIGINT)"))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    with pytest.raises(KeyboardInterrupt):
        options_of(plugins, rows=2)

    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "code",
    [
        HEAD + "class Options(BaseModel):\n    rows: Any = print",
        HEAD + "class Options(BaseModel):\n    rows: Any = 10 ** 5000",
        HEAD + "class Options(BaseModel):\n    rows: bytes = b'\\xff'",
        SERIALIZER.format("raise SystemExit(0)"),
        SERIALIZER.format("return object()"),
    ],
)
def test_options_that_no_record_can_hold_are_their_plugins_fault(with_options, code):
    with pytest.raises(BrokenPart) as caught:
        options_of(with_options(code))

    assert caught.value.what.startswith(f"the options of {OWNED} cannot be checked: ")


def test_what_options_print_stays_out_of_standard_output(with_options, capsys):
    code = "print('module')\n" + VALIDATOR.format("print('validator'); return value")
    code += "    more: list = Field(default_factory=lambda: print('factory') or [])\n"
    plugins = with_options(code)

    options_of(plugins, rows=2)
    plugins.defaults("loss", "acme")

    printed = capsys.readouterr()
    assert printed.out == ""
    assert {"module", "validator", "factory"} <= set(printed.err.splitlines())


@pytest.mark.parametrize("field", ["alias='y z'", "validation_alias='q'", "serialization_alias='q'"])
def test_an_option_of_two_names_is_refused_because_one_would_be_lost(with_options, field):
    plugins = with_options(HEAD + f"class Options(BaseModel):\n    rows: int = Field(3, {field})\n")

    with pytest.raises(BrokenPart, match="acme_options:Options gives the option 'rows' an alias") as caught:
        options_of(plugins)

    assert caught.value.what.startswith(OWNED)


def test_a_model_without_named_options_is_refused(with_options):
    plugins = with_options("from pydantic import RootModel\nclass Options(RootModel[int]):\n    root: int = 3\n")

    with pytest.raises(BrokenPart, match="acme_options:Options is not a pydantic model of named options"):
        options_of(plugins)


def test_defaults_are_what_the_options_would_be(with_options):
    code = (
        MODEL
        + "    path: str\n    steps: tuple[int, ...] = (1, 2)\n    more: list = Field(default_factory=lambda: [7])\n"
    )

    defaults = with_options(code).defaults("loss", "acme")

    assert defaults == {"rows": 3, "path": NoDefault.REQUIRED, "steps": [1, 2], "more": [7]}


def test_a_default_that_follows_from_other_options_is_said_to(with_options):
    code = MODEL + "    more: int = Field(default_factory=lambda data: data['rows'])\n"

    assert with_options(code).defaults("loss", "acme")["more"] is NoDefault.COMPUTED


UNSHOWABLE = {
    "bytes": "bytes = b'\\xff'",
    "a loop": "list = cycle",
    "too deep": "list = deep",
    "too long": "int = 10 ** 5000",
    "it exits": "int = Field(default_factory=lambda: exit(0))",
}
VALUES = "cycle = []\ncycle.append(cycle)\ndeep = []\nfor _ in range(5000):\n    deep = [deep]\n"


@pytest.mark.parametrize("fault", UNSHOWABLE)
def test_a_default_that_cannot_be_shown_is_told_and_the_rest_is_listed(lab, with_options, fault):
    with_options(HEAD + VALUES + f"class Options(BaseModel):\n    rows: {UNSHOWABLE[fault]}\n")

    shown, record = lab("plugins", "--options"), lab("plugins", "--json")

    told = f"{OWNED} has a default that cannot be shown: "
    assert (shown.code, record.code, shown.err) == (0, 0, "")
    assert f"    {told}" in shown.out
    parts = {part["name"]: part for plugin in json.loads(record.out)["plugins"] for part in plugin["parts"]}
    assert parts["acme"]["options"] is None
    assert parts["acme"]["error"].startswith(told)
    assert parts["fineweb"]["options"]
