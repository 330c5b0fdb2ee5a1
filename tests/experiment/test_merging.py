from __future__ import annotations

import pytest

from lab.errors import UsageError
from lab.experiment import load
from lab.experiment.merging import merged, override


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("seed=3", {"seed": 3}),
        ("optimizer.learning_rate=1e-4", {"optimizer": {"learning_rate": 0.0001}}),
        ("observers.profiler.steps=[1, 2]", {"observers": {"profiler": {"steps": [1, 2]}}}),
        ('observers."memory snapshot".step=3', {"observers": {"memory snapshot": {"step": 3}}}),
        ("attention=flex", {"attention": "flex"}),
        ('attention="flex"', {"attention": "flex"}),
        ("attention={name = 'flex', block = 64}", {"attention": {"name": "flex", "block": 64}}),
        ("group=2026", {"group": "2026"}),
        ("description=5 # five", {"description": "5 # five"}),
        ("description='5'", {"description": "5"}),
        ("data.tokenizer.revision=607e30", {"data": {"tokenizer": {"revision": "607e30"}}}),
        ("data.source.revision=607e30", {"data": {"source": {"revision": 607e30}}}),
        ("a=1\nb=2", {"a": "1\nb=2"}),
        ("a=1\n[b]=3", {"a": "1\n[b]=3"}),
        ("a = b = c", {"a": "b = c"}),
    ],
)
def test_a_setting_is_read_as_toml_or_else_as_text(text, table):
    assert override(text) == table


@pytest.mark.parametrize("text", ["", "seed", "=3", ".a=3", "a.=3", "a b=3", "a\nb=3", "[a]=3", "{}=3"])
def test_what_is_no_setting_is_refused(text):
    with pytest.raises(UsageError, match="is not key=value"):
        override(text)


@pytest.mark.parametrize("text", ["1e-4", '"1e-4"', "0.0001"])
def test_a_number_is_the_same_in_the_file_and_on_the_command_line(project, text):
    folder = project / "experiments"
    (folder / "child.toml").write_text(f'extends = "smoke"\noptimizer.learning_rate = {text}\n')

    in_file = load("child", folder).experiment.optimizer.learning_rate
    on_the_command_line = load("smoke", folder, [f"optimizer.learning_rate={text}"]).experiment.optimizer.learning_rate

    assert in_file == on_the_command_line == 0.0001


@pytest.mark.parametrize("text", ["1e6", "1.0e6", "1_000_000"])
def test_a_count_may_be_written_as_a_power_of_ten(project, text):
    folder = project / "experiments"
    (folder / "child.toml").write_text(f'extends = "smoke"\ndata.train_tokens = {text}\n')

    in_file = load("child", folder).experiment.data.train_tokens
    on_the_command_line = load("smoke", folder, [f"data.train_tokens={text}"]).experiment.data.train_tokens

    assert in_file == on_the_command_line == 1_000_000
    assert type(in_file) is type(on_the_command_line) is int


@pytest.mark.parametrize("text", ["1e-6", "1.5", '"1e6"'])
def test_a_count_that_is_no_whole_number_is_refused_in_the_file_and_on_the_command_line(project, text):
    folder = project / "experiments"
    (folder / "child.toml").write_text(f'extends = "smoke"\ndata.train_tokens = {text}\n')

    for name, settings in (("child", []), ("smoke", [f"data.train_tokens={text}"])):
        with pytest.raises(UsageError, match=r"data\.train_tokens: must be a whole number"):
            load(name, folder, settings)


@pytest.mark.parametrize("text", ["false", "False", "0", "no", '"false"'])
def test_a_switch_that_says_no_is_off(project, text):
    assert load("smoke", project / "experiments", [f"train.compile={text}"]).experiment.train.compile is False


@pytest.mark.parametrize("text", ["false", "0", '"false"', '"no"', '"False"'])
def test_a_switch_that_says_no_in_a_file_is_off(project, text):
    (project / "experiments" / "child.toml").write_text(f'extends = "smoke"\ntrain.compile = {text}\n')

    assert load("child", project / "experiments").experiment.train.compile is False


@pytest.mark.parametrize("text", ["false", "False", "0", "no", '"false"'])
def test_a_tracker_that_says_no_is_off(project, text):
    loaded = load("smoke", project / "experiments", [f"trackers.mlflow={text}"])

    assert loaded.experiment.trackers == {"mlflow": False}


def test_later_settings_come_over_earlier_ones(project):
    loaded = load("smoke", project / "experiments", ["attention=flex", "attention.block=64", "seed=1", "seed=2"])

    assert loaded.experiment.attention.model_dump() == {"name": "flex", "block": 64}
    assert loaded.experiment.seed == 2
    assert [declaration.child for declaration in loaded.declarations] == ["--set"]


def test_merging_leaves_both_tables_as_they_were():
    base, own = {"a": {"b": 1}, "c": [1]}, {"a": {"d": 2}}

    assert merged(base, own) == {"a": {"b": 1, "d": 2}, "c": [1]}
    assert (base, own) == ({"a": {"b": 1}, "c": [1]}, {"a": {"d": 2}})
