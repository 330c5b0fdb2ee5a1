from __future__ import annotations

from pathlib import Path

import pytest

from lab.errors import UsageError
from lab.experiment import Change, finding, flat, load, names

BASE = """
description = "Base"
loop = "pretrain"
attention = { name = "flash-varlen", provider = "fa3" }

[observers]
profiler = { steps = [21, 22], stacks = true }

[data]
source = { name = "files", pattern = "*.txt" }
train_tokens = 100
validation_tokens = 10
max_documents = 5
context = 64

[model]
layers = 2
width = 64
heads = 4

[batch]
tokens = 128

[optimizer]

[train]
steps = 10
warmup_steps = 2
"""


@pytest.fixture
def folder(project):
    (project / "experiments" / "base.toml").write_text(BASE)
    return project / "experiments"


def write(folder, name, text):
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return name


def fault(folder, text="", *, name="child", overrides=()):
    write(folder, name, text)
    with pytest.raises(UsageError) as caught:
        load(name, folder, overrides)
    return caught.value


def changes(loaded):
    return [(change.key, change.before, change.after) for change in loaded.declarations[-1].changes]


def test_what_a_child_sets_is_its_declared_change(folder):
    write(folder, "child", 'extends = "base"\nattention = "flex"\n')

    loaded = load("child", folder)

    assert (loaded.experiment.name, loaded.experiment.attention.name) == ("child", "flex")
    assert loaded.files == (folder / "child.toml", folder / "base.toml")
    assert (loaded.declarations[-1].base, loaded.declarations[-1].child) == ("base", "child")
    assert changes(loaded) == [("attention.name", "flash-varlen", "flex"), ("attention.provider", "fa3", None)]


def test_name_description_and_group_are_no_change(folder):
    write(folder, "child", 'extends = "base"\ndescription = "Other"\ngroup = "x"\n')

    assert changes(load("child", folder)) == []


def test_each_link_of_a_chain_declares_its_own_change(folder):
    write(folder, "middle", 'extends = "base"\nseed = 1\n')
    write(folder, "child", 'extends = "middle"\nseed = 2\n')

    loaded = load("child", folder, ["seed=3"])

    assert [(d.base, d.child, d.changes) for d in loaded.declarations] == [
        ("base", "middle", (Change("seed", 42, 1),)),
        ("middle", "child", (Change("seed", 1, 2),)),
        ("child", "--set", (Change("seed", 2, 3),)),
    ]


def test_options_without_a_name_go_to_the_part_of_the_base(folder):
    write(folder, "child", 'extends = "base"\nattention.provider = "fa4"\n')

    assert load("child", folder).experiment.attention.model_dump() == {"name": "flash-varlen", "provider": "fa4"}


def test_a_part_that_is_named_anew_takes_none_of_the_old_options(folder):
    write(folder, "child", 'extends = "base"\nattention = { name = "flex", block = 64 }\n')

    assert load("child", folder).experiment.attention.model_dump() == {"name": "flex", "block": 64}


def test_options_can_join_a_part_that_was_only_named(folder):
    write(folder, "named", 'extends = "base"\nattention = "flex"\n')
    write(folder, "child", 'extends = "named"\nattention.block = 64\n')

    assert load("child", folder).experiment.attention.model_dump() == {"name": "flex", "block": 64}


def test_tables_merge_at_any_depth_and_lists_replace(folder):
    write(folder, "child", 'extends = "base"\n[observers.profiler]\nsteps = [3]\n[observers.memory]\n')

    assert load("child", folder).experiment.observers == {"profiler": {"steps": [3], "stacks": True}, "memory": {}}


def test_an_observer_is_switched_off_with_false(folder):
    write(folder, "child", 'extends = "base"\nobservers.profiler = false\n')

    loaded = load("child", folder)

    assert loaded.experiment.observers == {}
    assert [change[0] for change in changes(loaded)] == ["observers.profiler.steps", "observers.profiler.stacks"]


def test_a_size_in_packs_drops_the_size_in_tokens(folder):
    write(folder, "child", 'extends = "base"\nbatch.packs = 3\n')

    batch = load("child", folder).experiment.batch

    assert (batch.packs, batch.tokens) == (3, None)


def test_a_network_volume_drops_a_volume_of_ones_own(folder):
    write(folder, "own", 'extends = "base"\nenvironment.volume_gb = 30\n')
    write(folder, "child", 'extends = "own"\nenvironment.network_volume = "abc"\n')

    assert load("child", folder).experiment.environment.volume_gb is None


def test_a_path_extends_its_neighbour_and_then_the_projects_experiments(folder, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    write(elsewhere, "near", 'extends = "base"\nseed = 1\n')
    write(elsewhere, "top", 'extends = "near"\nseed = 2\n')
    write(elsewhere, "by-path", f'extends = "../{folder.relative_to(tmp_path)}/base.toml"\n')

    assert load(str(elsewhere / "top.toml"), folder).experiment.train.steps == 10
    assert load(str(elsewhere / "by-path.toml"), folder).files[-1] == folder / "base.toml"


def test_experiments_that_a_wheel_brings_are_found_last(folder, tmp_path, monkeypatch):
    packaged = tmp_path / "packaged"
    packaged.mkdir()
    write(packaged, "base", BASE.replace("steps = 10", "steps = 99"))
    write(packaged, "shipped", BASE)
    monkeypatch.setattr(finding, "PACKAGED", packaged)

    assert load("base", folder).experiment.train.steps == 10
    assert load("shipped", folder).files == (packaged / "shipped.toml",)
    assert {"base", "shipped", "smoke"} <= set(names(folder))


def test_an_endless_chain_of_extends_has_an_end(folder, monkeypatch):
    monkeypatch.setattr("lab.experiment.loading.LONGEST_CHAIN", 3)
    for child, parent in (("one", "two"), ("two", "three"), ("three", "four"), ("four", "five")):
        (folder / f"{child}.toml").write_text(f'extends = "{parent}"')

    with pytest.raises(UsageError, match=r"four.toml: extends: .* more than 3 experiments"):
        load("one", folder)


def test_a_circle_of_extends_is_drawn(folder):
    write(folder, "one", 'extends = "two"\n')

    error = fault(folder, 'extends = "one"\n', name="two")

    assert "extends: goes in a circle: two -> one -> two" in error.what


def test_an_unknown_experiment_suggests_the_nearest(folder):
    with pytest.raises(UsageError) as caught:
        load("smok", folder)

    assert caught.value.what == f"no experiment is called 'smok' in {folder}"
    assert caught.value.do == "Did you mean 'smoke'?"


def test_an_unknown_parent_names_the_file_that_asks_for_it(folder):
    error = fault(folder, 'extends = "bas"\n')

    assert error.what.startswith(f"{folder / 'child.toml'}: extends: no experiment is called 'bas'")
    assert error.do == "Did you mean 'base'?"


@pytest.mark.parametrize(
    "name", ["", "../base", "a/b", "x" * 300, "x" * 300 + ".toml", "no.toml", "a\0b", "ex periment"]
)
def test_a_name_that_is_none_is_refused(folder, name):
    with pytest.raises(UsageError):
        load(name, folder)


def test_a_file_whose_name_cannot_name_a_run_is_refused(folder):
    path = folder / "my experiment.toml"
    path.write_text(BASE)

    with pytest.raises(UsageError, match="becomes part of its runs' names"):
        load(str(path), folder)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("optim.lrr = 1e-4", "optim: unknown key. Did you mean 'optimizer'?"),
        ("lr = 1e-4", "lr: unknown key. Did you mean 'optimizer.learning_rate'?"),
        ("optimizer.lr = 1", "optimizer.lr: unknown key. Did you mean 'optimizer.learning_rate'?"),
        ("steps = 5", "steps: unknown key. Did you mean 'train.steps'?"),
        ("train.warmup-steps = 1", "train.warmup-steps: unknown key. Did you mean 'warmup_steps'?"),
        ("batch.micro_batch = 1", "batch.micro_batch: unknown key. Did you mean 'micro_batches'?"),
        ("seed = 'x'", "seed: must be a whole number, not 'x'"),
        ("seed = -1", "seed: must be greater than or equal to 0, not -1"),
        ("seed = true", "seed: must be a number, not true"),
        ("train.steps = 0", "train.steps: must be greater than 0, not 0"),
        ("train.compile = 'maybe'", "train.compile: must be true or false, not 'maybe'"),
        ("train.precision = 'fp16'", "train.precision: must be 'bf16-autocast' or 'fp32', not 'fp16'"),
        ("train.warmup_steps = 10", "train: warmup_steps 10 leaves none of the 10 steps to measure"),
        ("optimizer.learning_rate = nan", "optimizer.learning_rate: must be a finite number, not nan"),
        ("optimizer.betas = [0.9, 1.0]", "optimizer.betas.1: must be less than 1, not 1.0"),
        ("attention = 3", "attention: must be the name of a part, in quotes, or a table with its name and options"),
        ("data.source = false", "data.source: must be the name of a part, in quotes, or a table with its name and"),
        ("loss = ''", "loss.name: must not be empty"),
        ("observers.profiler = 3", "observers.profiler: must be a table of options, true or false, not 3"),
        ("observers.memory = false", "observers.memory: is false, and there is no such observer to switch off"),
        ("observers.memory = {name = 'x'}", "observers: memory has a key 'name', but is a name already"),
        ("observers.'' = {}", "observers: '' is no name of a part"),
        ("trackers.'' = false", "trackers: '' is no name of a part"),
        ("environment.image = 'a b;c'", "environment.image: 'a b;c' is not an image such as"),
        ("environment.image = 'a/Upper:1'", "environment.image: 'a/Upper:1' is not an image such as"),
        ("environment.image = 'a@sha256:12'", "environment.image: 'a@sha256:12' is not an image such as"),
        ("environment.gpu = ''", "environment.gpu: must not be empty"),
        ("model.heads = 5", "model: width 64 is not a multiple of heads 5"),
        ("model.layers = []", "model.layers: must be a whole number"),
        ("batch = { packs = 1, tokens = 64 }", "batch: give either packs or tokens, not both and not neither"),
        ("batch.tokens = 63", "batch.tokens 63 cannot hold one segment of data.context 64"),
        (
            "evaluate = { every = 1, batches = 1, tokens = 63 }",
            "evaluate.tokens 63 cannot hold one segment of data.context 64",
        ),
        ("data.validation_fraction = 1", "data.validation_fraction: must be less than 1, not 1"),
        ("data.tokenizer.name = 'x/y'", "data.tokenizer: revision is missing: x/y must be pinned to one commit"),
        ("environment.gpus = 2", "environment: gpus = 2: more than one GPU is not supported yet"),
        (
            "environment = { volume_gb = 1, network_volume = 'a' }",
            "environment: give either volume_gb or network_volume, not both",
        ),
        ("description = 2026-01-01", "description: must be text, in quotes"),
        ("name = 'x'", "name: an experiment's name is its file's name"),
        ("limits.hours = 1e308", "limits.hours: must be at most 8_760 (a year), not 1e+308"),
        ("limits.dollars = 1e308", "limits.dollars: must be at most 1_000_000 (a million dollars), not 1e+308"),
        ("limits.hours = 1e-300", "limits.hours: must be at least 0.00028 (a second), not 1e-300"),
        ("limits.dollars = 1e-300", "limits.dollars: must be at least 0.01 (a cent), not 1e-300"),
        ("stages = [{ name = 'a', run = ['b'], hours = 1e-9 }]", "stages.0.hours: must be at least 0.00028 (a second)"),
        ("environment.disk_gb = 100_001", "environment.disk_gb: must be at most 100_000 (100 TB), not 100001"),
        ("stages = [{ name = 'a', run = ['b'], hours = 8761 }]", "stages.0.hours: must be at most 8_760 (a year)"),
        ("results = ['../secret']", "results.0: '../secret' must be a pattern below the run directory"),
        ("[[stages]]\nname = 'a'\nrun = ['b']", "an experiment with [[stages]] has no loop: it runs commands"),
    ],
)
def test_a_fault_names_the_file_and_the_key(folder, text, message):
    error = fault(folder, f'extends = "base"\n{text}\n')

    assert error.what.startswith(f"{folder / 'child.toml'}: {message}")
    assert error.exit_code == 2


@pytest.mark.parametrize(
    "image",
    ["debian", "debian:12", "localhost:5000/a", "ghcr.io/acme/lab.train_x--y/z:V1.0_rc-2", "[::1]:5000/a/b:1",
     "nvcr.io/nvidia/pytorch:25.01-py3", f"a/b:1@sha256:{'0' * 64}", f"a@sha512:{'aF' * 64}"],
)  # fmt: skip
def test_what_registries_take_for_an_image_passes(folder, image):
    write(folder, "child", f'extends = "base"\nenvironment.image = "{image}"\n')

    assert load("child", folder).experiment.environment.image == image


@pytest.mark.parametrize(
    ("key", "characters"),
    [("description", 10_000), ("group", 500), ("attention.name", 500), ("environment.gpu", 500),
     ("environment.network_volume", 500), ("environment.image", 500), ("data.tokenizer.revision", 500),
     ("attention.provider", 100_000), ("observers.profiler.path", 100_000)],
)  # fmt: skip
def test_a_text_that_nobody_writes_is_refused_without_being_repeated(folder, key, characters):
    error = fault(folder, f'extends = "base"\n{key} = "{"x" * (characters + 1)}"\n')

    told = f"{key}: must have at most {characters:_} characters, not {characters + 1:_}"
    assert error.what == f"{folder / 'child.toml'}: {told}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f'description = "{"x" * 1_000_000}"', ": is larger than 1_000_000 bytes"),
        (f"{'x' * 201} = 1", "holds a key of 201 characters; at most 200"),
        (f"results = ['{'x' * 501}']", "results.0: must have at most 500 characters, not 501"),
        (f"attention.{'a.' * 30}b = 1", "is nested too deeply: at most 20 tables in one another"),
        (f"attention.a = {'[' * 30}{']' * 30}", "is nested too deeply: at most 20 tables in one another"),
        (f"attention.a = {'[' * 5_000}{']' * 5_000}", "child.toml: its tables are nested too deeply"),
        ("attention.rows = 0x1ffffffffffffffff", "attention.rows: must be a whole number of at most 64 bits"),
    ],
)
def test_what_no_experiment_needs_is_refused_with_its_file_whoever_extends_it(folder, text, told):
    write(folder, "child", text + "\n")

    error = fault(folder, 'extends = "child"\n', name="grandchild")

    assert told in error.what
    assert str(folder / "child.toml") in error.what
    assert len(error.what) < 500


def test_bounds_hold_for_what_is_set_on_the_command_line_too(folder):
    with pytest.raises(UsageError, match=r"--set: attention\.provider: must have at most 100_000 characters"):
        load("base", folder, [f"attention.provider={'x' * 100_001}"])
    with pytest.raises(UsageError, match=r"--set: observers\.memory: is false, and there is no such observer"):
        load("base", folder, ["observers.memory=false"])


@pytest.mark.parametrize("key", ["description", "group", "trackers.mlflow.tags", "attention.provider"])
def test_a_byte_that_is_no_text_is_refused_before_any_record_holds_it(folder, key):
    with pytest.raises(UsageError, match=rf"--set: {key}: is not text in UTF-8: character 3 is U\+DC80"):
        load("base", folder, [f"{key}=ab\udc80"])


def test_a_nul_is_refused_in_values_and_in_keys(folder):
    assert "description: is not text in UTF-8: character 2 is U+0000" in fault(folder, 'description = "a\\u0000"').what
    assert "is not text in UTF-8" in fault(folder, '[attention]\nname = "x"\n"a\\u0000" = 1').what


@pytest.mark.parametrize("key", ["environment.gpu", "environment.network_volume", "data.tokenizer.revision", "group"])
def test_what_is_set_for_a_text_stays_one_whatever_bounds_it(folder, key):
    assert flat(load("base", folder, [f"{key}=607e30"]).experiment)[key] == "607e30"


def test_a_package_that_pip_would_read_as_an_option_is_refused(folder):
    error = fault(folder, 'extends = "base"\nenvironment.packages = ["--index-url=http://x"]\n')

    assert "environment.packages.0: '--index-url=http://x' is not a package" in error.what


def test_every_fault_is_said_at_once(folder):
    error = fault(folder, 'extends = "base"\ntrain.stepz = 1\nseed = "x"\n')

    assert len(error.what.splitlines()) == 2


@pytest.mark.parametrize("missing", ["loop", "train"])
def test_an_experiment_trains_or_runs_commands(folder, missing):
    text = "\n".join(line for line in ('loop = "x"', "train = { steps = 1 }") if not line.startswith(missing))

    assert f"{missing} is missing: an experiment trains" in fault(folder, text).what


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe",
        b"a = ",
        b"= = =",
        b"a = 1\na = 2\n",
        b"a = " + b"[" * 10_000,
        b"seed = " + b"9" * 5_000,
        b"a." * 5_000 + b"a = 1",
        b"extends = 3",
        b"extends = 'child'",
        b"\0",
    ],
)
def test_a_file_that_is_no_experiment_is_a_usage_error_that_names_it(folder, content):
    (folder / "child.toml").write_bytes(content)

    with pytest.raises(UsageError, match="child"):
        load("child", folder)


def test_a_file_may_begin_with_a_byte_order_mark(folder):
    (folder / "child.toml").write_bytes(b"\xef\xbb\xbf" + BASE.encode())

    assert load("child", folder).experiment.seed == 42


def test_a_folder_that_is_missing_lists_nothing_and_names_what_was_sought(tmp_path):
    assert names(tmp_path / "nowhere") == names(Path("/nowhere"))
    with pytest.raises(UsageError, match="no experiment is called 'smoke'"):
        load("smoke", tmp_path / "nowhere")


def test_an_error_knows_which_file_set_a_key_last(folder):
    write(folder, "child", 'extends = "base"\nattention.provider = "fa4"\n')

    loaded = load("child", folder, ["seed=1"])

    assert loaded.where("attention.provider") == str(folder / "child.toml")
    assert loaded.where("attention.name") == str(folder / "base.toml")
    assert loaded.where("attention.unheard") == str(folder / "child.toml")
    assert loaded.where("seed") == "--set"
    assert loaded.where("evaluate") == str(folder / "child.toml")


def test_every_experiment_of_the_project_loads(project):
    for name in names(project / "experiments"):
        assert flat(load(name, project / "experiments").experiment)["name"] == name
