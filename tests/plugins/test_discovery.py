from __future__ import annotations

import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from installed import write_plugin

from lab.hookspecs import HOOKS
from lab.plugins import Plugins, discovery

GOOD = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("acme", target="lab_good.loss:Acme", summary="A sum.")]
"""
HOOK = "from lab import Part, hookimpl\n\n@hookimpl\n"

BROKEN = {
    "an import fails": ("import nowhere_to_be_found", "ModuleNotFoundError: No module named 'nowhere_to_be_found'"),
    "it exits": ("raise SystemExit(3)", "SystemExit: 3"),
    "it interrupts": ("raise KeyboardInterrupt", "KeyboardInterrupt (of its own: nobody pressed Ctrl-C)"),
    "it interrupts with words": ("raise KeyboardInterrupt('x')", "KeyboardInterrupt: x (of its own: nobody pressed"),
    "a hook interrupts": (HOOK + "def losses():\n    raise KeyboardInterrupt", "KeyboardInterrupt (of its own"),
    "it is no Python": ("def", "SyntaxError: invalid syntax"),
    "a misspelt hook": (HOOK + "def loses():\n    return []", "there is no hook 'loses'. Did you mean 'losses'?"),
    "a wrong argument": (HOOK + "def losses(los):\n    return []", "a hook takes no arguments"),
    "a hook raises": (HOOK + "def losses():\n    return 1 / 0", "ZeroDivisionError: division by zero"),
    "nothing returned": (HOOK + "def losses():\n    pass", "losses() returned None, not a list of Part"),
    "no parts": (HOOK + "def losses():\n    return ['acme']", "losses() returned ['acme'], not a list of Part"),
    "a bad target": (HOOK + "def losses():\n    return [Part('a', target='x.y')]", "losses() names 'x.y' for 'a'"),
    "no name": (HOOK + "def losses():\n    return [Part('', 'b:c')]", "losses() offers a part without a name"),
    "an odd extra": (HOOK + "def losses():\n    return [Part('a', 'b:c', extra=7)]", "the extra 7, which is no text"),
    "no summary": (HOOK + "def losses():\n    return [Part('a', 'b:c', None)]", "the summary None, which is no text"),
    "a class for a target": (HOOK + "def losses():\n    return [Part('a', int)]", "'a' the target <class 'int'>"),
    "odd options": (HOOK + "def losses():\n    return [Part('a', 'b:c', options=int)]", "the options <class 'int'>"),
    "twice a name": (HOOK + "def losses():\n    return [Part('a', 'b:c'), Part('a', 'b:d')]", "offers 'a' twice"),
}


def named(plugins, name):
    return next(plugin for plugin in plugins.installed if plugin.name == name)


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_plugin_is_listed_and_leaves_the_others_alone(install_plugin, fault):
    code, reason = BROKEN[fault]
    install_plugin("good", GOOD)
    install_plugin("broken", code)

    plugins = Plugins()

    assert (named(plugins, "broken").state, dict(named(plugins, "broken").parts)) == ("broken", {})
    assert reason in named(plugins, "broken").error
    assert "\n" not in named(plugins, "broken").error
    assert "acme" in plugins.parts("loss")


@pytest.fixture
def ctrl_c():
    """Ctrl-C does what it does in a new process, whatever other tests made of it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_persons_ctrl_c_while_a_plugin_is_imported_ends_the_command(install_plugin, ctrl_c):
    install_plugin("slow", "import signal\nsignal.raise_signal(signal.SIGINT)")

    with pytest.raises(KeyboardInterrupt):
        Plugins()

    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_in_a_thread_nobody_can_have_pressed_ctrl_c(install_plugin):
    install_plugin("broken", "raise KeyboardInterrupt")

    with ThreadPoolExecutor(1) as thread:
        plugins = thread.submit(Plugins).result()

    assert named(plugins, "broken").state == "broken"


def test_a_plugin_whose_third_hook_is_wrong_offers_nothing_at_all(install_plugin):
    hooks = "".join(f"@hookimpl\ndef {hook}():\n    return [Part('half', 'a:b')]\n" for hook in HOOKS.values())
    install_plugin("half", "from lab import Part, hookimpl\n" + hooks.replace("def losses()", "def losses(los)"))

    plugins = Plugins()

    assert named(plugins, "half").state == "broken"
    assert not any("half" in plugins.parts(kind) for kind in HOOKS)


def test_a_hook_without_its_decorator_is_pointed_out(install_plugin):
    install_plugin("forgetful", GOOD + "\ndef observers():\n    return []\n")

    assert named(Plugins(), "forgetful").warnings == ("observers() has no @hookimpl above it, so it is never called",)


def test_the_code_of_a_blocked_plugin_never_runs(install_plugin):
    install_plugin("blocked", "raise SystemExit('it ran')")

    plugin = named(Plugins(frozenset({"blocked"})), "blocked")

    assert (plugin.state, plugin.error) == ("blocked", "blocked by LAB_BLOCKED_PLUGINS")
    assert "lab_blocked" not in sys.modules


def test_what_a_plugin_prints_at_import_stays_out_of_standard_output(install_plugin, capsys):
    install_plugin("chatty", "print('hello')\n" + GOOD)

    Plugins()

    assert capsys.readouterr().out == ""


def test_a_plugin_that_requires_another_lab_names_both_versions_and_the_remedy(install_plugin):
    install_plugin("future", GOOD, distribution="lab-future", requires=("llm-training-lab[train] >=99",))

    plugin = named(Plugins(), "future")

    assert plugin.state == "incompatible"
    assert re.fullmatch(
        r"needs llm-training-lab >=99, but \d\S+ is installed\. "
        r"Run: pip install 'llm-training-lab>=99', or install another version of lab-future\.",
        plugin.error,
    )


def test_a_requirement_that_is_met_or_does_not_apply_changes_nothing(install_plugin):
    requires = ("llm-training-lab>=0.0.1", 'llm-training-lab>=99; extra == "tests"', "label>=3")
    install_plugin("modest", GOOD, requires=requires)

    assert named(Plugins(), "modest").state == "loaded"


@pytest.mark.parametrize(
    ("wanted", "remedy"), [("99", "llm-training-lab"), ("0", "lab-other"), ("'x'", "llm-training-lab")]
)
def test_a_plugin_for_another_interface_says_which_side_to_upgrade(install_plugin, wanted, remedy):
    install_plugin("other", f"LAB_INTERFACE = {wanted}\n" + GOOD)

    plugin = named(Plugins(), "other")

    assert plugin.state == "incompatible"
    assert plugin.error.startswith(f"was written for plugin interface {wanted.strip(chr(39))}, but llm-training-lab")
    assert plugin.error.endswith(f"Run: pip install --upgrade {remedy}")


def test_damaged_metadata_leaves_the_plugin_usable(install_plugin):
    site = install_plugin("good", GOOD)
    (site / "lab_good-1.0.dist-info" / "METADATA").write_bytes(b"\xff\xfe nothing here")

    assert named(Plugins(), "good").state == "loaded"


def test_plugins_are_listed_ours_first_and_a_strangers_is_marked(install_plugin):
    install_plugin("aaa", GOOD)

    installed = Plugins().installed

    assert [plugin.name for plugin in installed if plugin.third_party] == ["aaa"]
    assert installed[-1].name == "aaa"


def test_tracing_prints_each_hook_call(install_plugin, capsys):
    install_plugin("good", GOOD)

    discovery.discover(trace=True)

    assert "lab_good.losses() -> [Part(name='acme'" in capsys.readouterr().err


def test_tracing_names_the_hook_that_raises(install_plugin, capsys):
    install_plugin("broken", HOOK + "def losses():\n    return 1 / 0")

    discovery.discover(trace=True)

    assert "lab_broken.losses() raises ZeroDivisionError: division by zero\n" in capsys.readouterr().err


def test_listing_every_plugin_imports_nothing_heavy():
    code = """
        import sys
        from lab.plugins import Plugins
        Plugins()
        heavy = {"torch", "mlflow", "wandb", "transformers", "datasets", "pyarrow", "numpy"} & set(sys.modules)
        assert not heavy, heavy
    """
    subprocess.run([sys.executable, "-c", "\n".join(line.strip() for line in code.splitlines())], check=True)


DAMAGED = {
    "no module": (b"[lab]\nbad = !!bad value\n", "bad", "its entry_points.txt names '!!bad value' for it, which is no"),
    "nothing": (b"[lab]\nbad =\n", "bad", "its entry_points.txt names '' for it, which is no module"),
    "no UTF-8": (b"[lab]\nx\xff\xfe = lab_bad\n", "lab-bad", "its entry_points.txt cannot be read: UnicodeDecodeError"),
    "no equals sign": (b"[lab]\njust text\n", "lab-bad", "its entry_points.txt cannot be read: "),
}


@pytest.mark.parametrize("fault", DAMAGED)
def test_a_damaged_entry_point_is_listed_as_broken_and_leaves_the_others_alone(install_plugin, fault):
    text, name, reason = DAMAGED[fault]
    install_plugin("good", GOOD)
    site = install_plugin("bad", GOOD)
    (site / "lab_bad-1.0.dist-info" / "entry_points.txt").write_bytes(text)

    plugins = Plugins()

    assert (named(plugins, name).state, named(plugins, name).owner) == ("broken", "lab-bad 1.0")
    assert named(plugins, name).error.startswith(reason)
    assert "acme" in plugins.parts("loss")
    assert named(Plugins({name}), name).state == "blocked"


def test_a_folder_that_names_no_distribution_leaves_the_others_alone(install_plugin):
    site = install_plugin("good", GOOD)
    (site / "-1.0.dist-info").mkdir()
    (site / "-1.0.dist-info" / "entry_points.txt").write_text("[lab]\nnobody = nowhere\n")

    plugins = Plugins()

    assert (named(plugins, "good").state, named(plugins, "nobody").state) == ("loaded", "broken")


@pytest.mark.parametrize(("entries", "counts"), [("[lab]\nnew = lab_new\n", ["new"]), ("[other]\nnew = lab_new\n", [])])
def test_of_two_distributions_of_one_name_the_first_on_the_search_path_counts(
    install_plugin, tmp_path, monkeypatch, entries, counts
):
    install_plugin("old", GOOD, distribution="lab-acme")
    info = write_plugin(tmp_path / "newer", "new", GOOD, distribution="lab-acme", version="2.0")
    (info / "entry_points.txt").write_text(entries)
    monkeypatch.syspath_prepend(tmp_path / "newer")

    assert [plugin.name for plugin in Plugins().installed if plugin.third_party] == counts
