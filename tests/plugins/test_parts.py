from __future__ import annotations

import logging

import pytest

from lab.errors import LabError, UsageError
from lab.experiment import PartChoice
from lab.plugins import BrokenPart, MissingLibrary, Plugins, UnknownPart, load
from lab.settings import Settings

ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [
        Part("acme", target="acme_loss:Acme", options="acme_options:Options"),
        Part("plain", target="acme_loss:Acme"),
        Part("misspelt", target="acme_loss:Akme"),
        Part("lost", target="acme_nowhere:Acme"),
        Part("needy", target="acme_needy:Acme", extra="liger"),
        Part("own-needs", target="acme_needy:Acme", extra="fast"),
        Part("bare-needs", target="acme_needy:Acme"),
        Part("exits", target="acme_exits:Acme"),
        Part("interrupts", target="acme_interrupts:Acme"),
        Part("no-model", target="acme_loss:Acme", options="acme_loss:Acme"),
    ]
"""
FILES = {
    "acme_loss.py": "class Acme:\n    def __init__(self, options):\n        self.options = options\n",
    "acme_options.py": (
        "from pydantic import BaseModel\n\n"
        "class Options(BaseModel):\n    rows: int = 1024\n    fast: bool = False\n    provider: str | None = None\n"
    ),
    "acme_needy.py": "import nowhere_to_be_found.deep\n",
    "acme_exits.py": "raise SystemExit(1)\n",
    "acme_interrupts.py": "raise KeyboardInterrupt\n",
}


@pytest.fixture
def acme(install_plugin):
    site = install_plugin("acme", ACME, files=FILES)
    metadata = site / "lab_acme-1.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text() + "Provides-Extra: fast\n")
    return Plugins()


def choice(name, **options):
    return PartChoice(name=name, **options)


def test_a_part_is_built_with_its_checked_options(acme):
    part = acme.build("loss", choice("acme", rows="64", fast="no"))

    assert (type(part).__name__, part.options.rows, part.options.fast) == ("Acme", 64, False)


def test_a_part_without_options_is_built_with_none(acme):
    assert acme.build("loss", choice("plain")).options is None


def test_an_unknown_part_names_the_nearest_one(acme):
    with pytest.raises(UnknownPart, match="no loss is called 'acmee'") as caught:
        acme.resolve("loss", "acmee")

    assert caught.value.do.startswith("Did you mean 'acme'?")
    assert caught.value.exit_code == 2


def test_an_unknown_part_mentions_the_plugin_that_may_have_brought_it(install_plugin):
    install_plugin("ligr", "import nowhere_to_be_found")

    with pytest.raises(UnknownPart) as caught:
        Plugins().resolve("loss", "ligr")

    assert "Plugin ligr: ModuleNotFoundError: No module named 'nowhere_to_be_found'." in caught.value.do


@pytest.mark.parametrize(
    ("name", "do"),
    [
        ("needy", "Run: pip install 'llm-training-lab[liger]'"),
        ("own-needs", "Run: pip install 'lab-acme[fast]'"),
        ("bare-needs", "Install the package that provides nowhere_to_be_found."),
    ],
)
def test_a_missing_library_becomes_the_command_that_brings_it(acme, name, do):
    with pytest.raises(MissingLibrary, match="needs nowhere_to_be_found, which is not installed") as caught:
        acme.resolve("loss", name)

    assert caught.value.do == do


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("misspelt", "AttributeError: module 'acme_loss' has no attribute 'Akme'"),
        ("lost", "No module named 'acme_nowhere'"),
        ("exits", "SystemExit: 1"),
        ("interrupts", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
    ],
)
def test_a_part_that_cannot_be_loaded_names_its_plugin_and_the_reason(acme, name, reason):
    with pytest.raises(BrokenPart) as caught:
        acme.resolve("loss", name)

    assert caught.value.what.startswith(f"the loss '{name}' of plugin acme (lab-acme 1.0) cannot be loaded: ")
    assert reason in caught.value.what
    assert not isinstance(caught.value, MissingLibrary)


@pytest.mark.parametrize("fault", ["1 / 0", "raise SystemExit(0)", "raise KeyboardInterrupt"])
def test_a_part_that_raises_when_it_is_built_names_its_plugin(install_plugin, fault):
    install_plugin(
        "acme", ACME, files={"acme_loss.py": f"class Acme:\n    def __init__(self, options):\n        {fault}\n"}
    )

    with pytest.raises(
        BrokenPart, match=r"^the loss 'plain' of plugin acme \(lab-acme 1.0\) cannot be built: "
    ) as caught:
        Plugins().build("loss", choice("plain"))

    assert caught.value.do == "Reinstall or report lab-acme, or choose another."


def test_what_a_part_says_to_a_person_when_it_is_built_stays_as_it_is(install_plugin):
    code = (
        "from lab.errors import LabError\n\ndef Acme(options):\n    raise LabError('no such model', 'Name another.')\n"
    )
    install_plugin("acme", ACME, files={"acme_loss.py": code})

    with pytest.raises(LabError, match=r"^no such model"):
        Plugins().build("loss", choice("plain"))


def test_an_unknown_option_is_refused_although_the_model_would_ignore_it(acme):
    with pytest.raises(UsageError, match=r"^loss\.rovs: unknown key\. Did you mean 'rows'\?$"):
        acme.options("loss", choice("acme", rovs=3))


def test_a_wrong_option_names_its_key_below_the_experiments(acme):
    with pytest.raises(UsageError, match=r"^data\.source\.rows: must be a whole number, not 'many'$"):
        acme.options("loss", choice("acme", rows="many"), key="data.source")


def test_a_part_without_a_model_takes_no_options(acme):
    with pytest.raises(UsageError, match=r"^loss\.rows: the loss 'plain' takes no options$"):
        acme.options("loss", choice("plain", rows=3))


def test_options_that_are_no_pydantic_model_are_the_plugins_fault(acme):
    with pytest.raises(LabError, match="acme_loss:Acme is not a pydantic model") as caught:
        acme.options("loss", choice("no-model"))

    assert caught.value.exit_code == 1


def test_two_plugins_of_one_part_hurt_only_who_uses_it(install_plugin):
    code = "from lab import Part, hookimpl\n\n@hookimpl\ndef trackers():\n    return [Part('foo', 'x:Y')]\n"
    install_plugin("one", code, distribution="first")
    install_plugin("two", code, distribution="second", version="2.5")
    plugins = Plugins()

    with pytest.raises(UnknownPart) as caught:
        plugins.resolve("tracker", "foo")

    assert caught.value.what == "two plugins offer a tracker called 'foo': one (first 1.0) and two (second 2.5)"
    assert caught.value.do == "Uninstall one, or block one: LAB_BLOCKED_PLUGINS=two"
    assert [plugin.name for plugin, _ in plugins.offers("tracker")["foo"]] == ["one", "two"]
    assert Plugins({"two"}).find("tracker", "foo")[0].name == "one"


def test_loading_warns_once_of_each_broken_plugin_and_of_a_name_that_blocks_nothing(project, install_plugin, caplog):
    install_plugin("broken", "raise ImportError('libcuda.so.1')", distribution="lab-broken")

    with caplog.at_level(logging.WARNING, logger="lab.plugins"):
        load(Settings(blocked_plugins=frozenset({"wandbb"})))

    about = [message for message in caplog.messages if "broken" in message and "lab-broken" in message]
    assert about == ["plugin broken (lab-broken 1.0) is broken: ImportError: libcuda.so.1"]
    assert "LAB_BLOCKED_PLUGINS: no plugin is called 'wandbb'. Did you mean 'wandb'?" in caplog.messages
