from __future__ import annotations

import sys
from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.experiment import Experiment, fingerprint, load
from lab.plugins import BrokenPart, Plugins

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
ACME = """
from lab import Part, hookimpl

@hookimpl
def loops():
    return [
        Part("acme-loop", target="acme_heavy:Loop", options="acme_options:LoopOptions"),
        Part("narrow", target="acme_heavy:Narrow", options="acme_options:NarrowOptions"),
    ]

@hookimpl
def attentions():
    return [Part("acme", target="acme_heavy:Attention", options="acme_options:AttentionOptions")]

@hookimpl
def observers():
    return [Part("watch", target="acme_heavy:Watch", options="acme_options:WatchOptions")]

@hookimpl
def trackers():
    return [Part("mirror", target="acme_heavy:Mirror")]

@hookimpl
def sources():
    return [Part("shelf", target="acme_heavy:Shelf", options="acme_options:ShelfOptions")]
"""
FILES = {
    "acme_heavy.py": "raise SystemExit('a check must not import this')",
    "acme_options.py": """
from typing import ClassVar, Literal
from pydantic import BaseModel

class LoopOptions(BaseModel):
    requires: ClassVar[tuple[str, ...]] = ("data", "optimizer")

class NarrowOptions(BaseModel):
    requires: ClassVar[tuple[str, ...]] = ("data",)
    reads: ClassVar[tuple[str, ...]] = ("optimizer", "train.compile")

class AttentionOptions(BaseModel):
    provider: Literal["fa3", "fa4"] = "fa3"
    window: int | None = None

class WatchOptions(BaseModel):
    steps: tuple[int, ...] = (1,)

class ShelfOptions(BaseModel):
    row: int = 7
""",
}
TRAINS = {"name": "x", "loop": "acme-loop", "train": {"steps": 1}, "optimizer": {}}
DATA = {"source": "shelf", "train_tokens": 1, "validation_tokens": 1, "max_documents": 1}


@pytest.fixture
def acme(install_plugin):
    install_plugin("acme", ACME, files=FILES)
    return Plugins()


def experiment(**changes):
    return Experiment.model_validate({**TRAINS, "data": DATA, **changes})


def test_checking_fills_in_the_defaults_of_every_part_and_imports_none(acme):
    checked = acme.check(
        experiment(attention="acme", observers={"watch": True}, trackers={"mirror": {"where": "worker"}})
    )

    assert checked.attention.options == {"provider": "fa3"}
    assert checked.data.source.options == {"row": 7}
    assert checked.observers == {"watch": {"steps": [1]}}
    assert checked.trackers == {"mirror": {"where": "worker"}}
    assert "acme_heavy" not in sys.modules


def test_a_default_left_out_and_a_default_said_have_one_fingerprint(acme):
    said = acme.check(experiment(attention={"name": "acme", "provider": "fa3"}))
    left_out = acme.check(experiment(attention="acme"))

    assert fingerprint(said) == fingerprint(left_out)
    assert fingerprint(said) != fingerprint(acme.check(experiment(attention={"name": "acme", "provider": "fa4"})))


def test_checking_twice_changes_nothing_more(acme):
    once = acme.check(experiment(attention="acme", observers={"watch": {}}))

    assert acme.check(once) == once
    assert Experiment.model_validate(once.model_dump(mode="json")) == once


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"attention": "acmee"}, "attention: no attention is called 'acmee'"),
        ({"attention": {"name": "acme", "provder": "fa3"}}, "attention.provder: unknown key. Did you mean 'provider'?"),
        ({"attention": {"name": "acme", "provider": "fa9"}}, "attention.provider: must be 'fa3' or 'fa4', not 'fa9'"),
        ({"observers": {"wach": {}}}, "observers.wach: no observer is called 'wach'"),
        ({"observers": {"watch": {"stps": [1]}}}, "observers.watch.stps: unknown key. Did you mean 'steps'?"),
        ({"trackers": {"miror": {}}}, "trackers.miror: no tracker is called 'miror'"),
        (
            {"trackers": {"mirror": {"where": "moon"}}},
            "trackers.mirror.where: must be 'launch' or 'worker', not 'moon'",
        ),
        (
            {"data": {**DATA, "source": {"name": "shelf", "rov": 3}}},
            "data.source.rov: unknown key. Did you mean 'row'?",
        ),
        ({"optimizer": None}, "optimizer: is missing; the loop 'acme-loop' needs it"),
    ],
)
def test_what_no_part_can_do_is_a_usage_error_that_names_file_and_key(acme, changes, fault):
    with pytest.raises(UsageError) as caught:
        acme.check(experiment(**changes))

    assert caught.value.what.startswith(f"x: {fault}")
    assert len(caught.value.what.splitlines()) == 1


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"attention": "acme"}, "attention: the loop 'narrow' does not read it, so it would change nothing."),
        ({"evaluate": {"every": 1, "batches": 1, "tokens": 4096}}, "evaluate: the loop 'narrow' does not read it"),
        (
            {"train": {"steps": 1, "precision": "bf16-autocast"}},
            "train.precision: the loop 'narrow' does not read it, and trains as with \"fp32\". Leave it out.",
        ),
        ({"train": {"steps": 1, "prefetch": True}}, "train.prefetch: the loop 'narrow' does not read it"),
    ],
)
def test_what_a_loop_says_it_does_not_read_is_refused(acme, changes, fault):
    with pytest.raises(UsageError) as caught:
        acme.check(experiment(loop="narrow", **changes))

    assert caught.value.what.startswith(f"x: {fault}")
    assert len(caught.value.what.splitlines()) == 1


@pytest.mark.parametrize("chapter", ["chapter01", "chapter02"])
@pytest.mark.parametrize(
    "setting",
    ["train.precision=bf16-autocast", "train.compile=true", "optimizer.clip=0.5", "loss=liger", "attention=sdpa"],
)
def test_a_setting_that_a_chapter_would_not_heed_is_refused(chapter, setting):
    asked = load(chapter, EXPERIMENTS, [setting]).experiment

    with pytest.raises(UsageError, match=f"the loop '{chapter}' does not read it"):
        Plugins().check(asked)


@pytest.mark.parametrize(
    ("declared", "fault"),
    [
        ("requires = 'data'", "requires is 'data', not a tuple of names"),
        ("requires = ('modle',)", "requires names 'modle', which no loop can ask for. Did you mean 'model'?"),
        ("requires = (7,)", "requires names 7, which no loop can ask for."),
        ("reads = None", "reads is None, not a tuple of names"),
        ("reads = ('train.precison',)", "reads names 'train.precison', which no loop can ask for. Did you mean"),
    ],
)
def test_a_loop_that_misdeclares_what_it_needs_is_its_plugins_fault(install_plugin, declared, fault):
    model = (
        f"from typing import Any, ClassVar\nfrom pydantic import BaseModel\nclass Narrow(BaseModel):\n    {declared}\n"
    )
    install_plugin("acme", ACME, files={"acme_options.py": model.replace(" = ", ": ClassVar[Any] = ")})
    part = "Part('x', target='acme_heavy:X', options='acme_options:Narrow')"
    install_plugin("other", f"from lab import Part, hookimpl\n@hookimpl\ndef loops(): return [{part}]\n")

    with pytest.raises(BrokenPart) as caught:
        Plugins().check(experiment(loop="x"))

    assert caught.value.what.startswith("x: loop: the loop 'x' of plugin other (lab-other 1.0): acme_options:Narrow: ")
    assert fault in caught.value.what


def test_options_that_are_called_reads_and_requires_declare_nothing(install_plugin):
    model = "from pydantic import BaseModel\nclass Plain(BaseModel):\n    reads: int = 3\n    requires: str = 'data'\n"
    install_plugin("acme", ACME, files={**FILES, "plain_options.py": model})
    part = "Part('x', target='acme_heavy:X', options='plain_options:Plain')"
    install_plugin("other", f"from lab import Part, hookimpl\n@hookimpl\ndef loops(): return [{part}]\n")

    checked = Plugins().check(experiment(loop="x"))

    assert checked.loop.options == {"reads": 3, "requires": "data"}


def test_what_a_loop_requires_or_reads_is_left_as_it_is(acme):
    checked = acme.check(experiment(loop="narrow", train={"steps": 1, "compile": True}, optimizer={"clip": 0.5}))

    assert (checked.train.compile, checked.optimizer.clip) == (True, 0.5)


def test_the_precision_of_a_loop_that_reads_none_is_fp32(acme):
    assert acme.check(experiment(loop="narrow")).train.precision == "fp32"
    assert acme.check(experiment()).train.precision == "bf16-autocast"


def test_every_fault_is_said_at_once(acme):
    with pytest.raises(UsageError) as caught:
        acme.check(experiment(attention="acmee", observers={"wach": {}}))

    lines = caught.value.what.splitlines()
    assert lines[0].startswith("x: attention: no attention is called 'acmee'. Did you mean 'acme'?")
    assert lines[1].startswith("x: observers.wach: no observer is called 'wach'. Did you mean 'watch'?")


def test_an_error_names_the_file_of_the_chain_that_set_the_key(acme, project):
    base = project / "experiments" / "base.toml"
    base.write_text('loop = "acme-loop"\nattention = "acmee"\noptimizer = {}\ntrain = { steps = 1 }\n')
    (project / "experiments" / "child.toml").write_text('extends = "base"\nseed = 3\n')
    loaded = load("child", project / "experiments")

    with pytest.raises(UsageError) as caught:
        acme.check(loaded.experiment, loaded.where)

    assert f"{base}: attention: no attention is called 'acmee'" in caught.value.what


def test_a_tracker_switched_off_needs_no_plugin(acme):
    assert acme.check(experiment(trackers={"nowhere": False})).trackers == {"nowhere": False}


def test_a_tracker_that_is_misspelt_where_it_is_switched_off_is_no_tracker_of_somebody_else(acme):
    with pytest.raises(UsageError) as refused:
        acme.check(Experiment.model_validate({**TRAINS, "data": DATA, "trackers": {"miror": False}}))

    assert refused.value.what == "x: trackers.miror: no tracker is called 'miror'. Did you mean 'mirror'?"


def test_the_plugins_that_a_run_uses_are_named_once(acme):
    used = acme.used(experiment(attention="acme", observers={"watch": {}}), backend="local")

    assert [(plugin.name, parts) for plugin, parts in used] == [
        ("local", {"backend": ["local"]}),
        ("acme", {"loop": ["acme-loop"], "attention": ["acme"], "source": ["shelf"], "observer": ["watch"]}),
    ]


def test_a_plugin_whose_module_a_stage_runs_is_used(acme):
    commands = Experiment.model_validate(
        {"name": "x", "stages": [{"name": "go", "run": ["{python}", "-m", "lab_acme", "make"]}]}
    )

    assert [(plugin.name, parts) for plugin, parts in acme.used(commands)] == [("acme", {"command": ["go"]})]


def test_an_experiment_of_commands_needs_no_plugin(acme):
    commands = Experiment.model_validate({"name": "x", "stages": [{"name": "go", "run": ["true"]}]})

    assert acme.check(commands) == commands
    assert acme.used(commands) == ()
