"""`lab data`: what people see, what programs read, and what a run's directory gets."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lab.cli import app
from lab.errors import LabError, UsageError
from lab.experiment import load
from lab.runs.directory import RunDirectory
from lab.runs.records import read_json, write_json

SMALL = ("--set", "data.train_tokens=9000", "--set", "data.validation_tokens=2000")


@pytest.fixture
def lab(project, monkeypatch):
    """Run one command in the project; errors are raised as they are."""
    monkeypatch.setenv("LAB_BLOCKED_PLUGINS", "")

    def run(*arguments):
        result = CliRunner().invoke(app, ["data", *map(str, arguments)], catch_exceptions=False, standalone_mode=False)
        return result.stdout

    return run


def config_of(project, folder, **changes):
    experiment = load("smoke", project / "experiments", SMALL[1::2]).experiment.model_dump(mode="json")
    folder.mkdir()
    write_json(folder / "config.json", {"experiment": {**experiment, **changes}})
    return RunDirectory(folder)


def test_a_run_gets_its_manifest_and_statistics(project, lab):
    run = config_of(project, project / "run")

    printed = lab("prepare", "--run", run.path)

    manifest, statistics = read_json(run.data_manifest), read_json(run.data_stats)
    assert manifest["identity"] == statistics["identity"]
    assert manifest["folder"] == str(project / ".lab" / "tokens" / manifest["identity"])
    assert manifest["splits"]["train"]["tokens"] >= 9000
    assert statistics["packing"]["capacity"] == 4096
    assert f"{manifest['splits']['train']['tokens']:,}" in printed


def test_preparing_twice_writes_the_same(project, lab):
    one, other = config_of(project, project / "one"), config_of(project, project / "other")

    lab("prepare", "--run", one.path)
    lab("prepare", "--run", other.path)

    assert one.data_manifest.read_bytes() == other.data_manifest.read_bytes()
    assert one.data_stats.read_bytes() == other.data_stats.read_bytes()


def test_an_experiment_is_prepared_inspected_and_listed(lab):
    prepared = json.loads(lab("prepare", "smoke", *SMALL, "--json"))
    inspected = json.loads(lab("inspect", "smoke", *SMALL, "--json"))
    listed = json.loads(lab("list", "--json"))

    assert inspected["identity"] == prepared["identity"] == listed[0]["identity"]
    assert inspected["splits"]["train"]["documents"] == prepared["splits"]["train"]["documents"]
    assert inspected["first_documents"][0]["head"].startswith("Fellow-Citizens of the Senate")
    assert listed[0]["source"] == "embedded"


def test_people_see_counts_lengths_packing_and_first_words(lab):
    lab("prepare", "smoke", *SMALL)

    shown = lab("inspect", "smoke", *SMALL)

    for part in (
        "smoke: embedded, tokenised by openai-community/gpt2",
        "Tokens per document, train",
        "% full",
        "Fellow",
    ):
        assert part in shown
    assert "\N{LOWER SEVEN EIGHTHS BLOCK}" in shown
    assert "embedded" in lab()


def test_a_runs_data_is_inspected_without_its_cache(project, lab):
    run = config_of(project, project / "run")
    lab("prepare", "--run", run.path)
    cache = project / ".lab" / "tokens"
    cache.rename(project / "elsewhere")

    shown = json.loads(lab("inspect", run.path, "--json"))

    assert shown["splits"]["train"]["documents"] == read_json(run.data_stats)["splits"]["train"]["documents"]
    assert shown["first_documents"] == []


def test_a_runs_first_documents_are_shown_while_its_cache_is_here(project, lab):
    run = config_of(project, project / "run")
    lab("prepare", "--run", run.path)

    heads = json.loads(lab("inspect", run.path, "--json"))["first_documents"]

    assert heads[0]["head"].startswith("Fellow-Citizens of the Senate")
    assert {head["split"] for head in heads} == {"train", "validation"}


def test_a_damaged_cache_costs_a_run_only_its_first_documents(project, lab):
    run = config_of(project, project / "run")
    lab("prepare", "--run", run.path)
    (project / ".lab" / "tokens" / read_json(run.data_manifest)["identity"] / "train.tokens").write_bytes(b"torn")

    shown = json.loads(lab("inspect", run.path, "--json"))

    assert shown["first_documents"] == []
    assert shown["splits"]["train"]["documents"]


def test_a_run_without_data_says_so(project, lab):
    run = config_of(project, project / "run", data=None, loop={"name": "chapter01"})

    assert "has no [data]" in lab("prepare", "--run", run.path)
    assert not run.data_manifest.exists()


def test_data_that_is_not_prepared_says_how_to_prepare_it(lab):
    with pytest.raises(LabError) as refused:
        lab("inspect", "smoke", *SMALL)

    assert refused.value.do == "Run: lab data prepare smoke"


@pytest.mark.parametrize("arguments", [(), ("smoke", "--run", "somewhere")])
def test_prepare_needs_exactly_one_of_name_and_run(lab, arguments):
    with pytest.raises(UsageError, match="either the name of an experiment or --run"):
        lab("prepare", *arguments)


def test_a_config_that_holds_no_experiment_is_named(project, lab):
    run = config_of(project, project / "run", batch={"tokens": "many"})

    with pytest.raises(LabError, match=r"config\.json: holds no experiment"):
        lab("prepare", "--run", run.path)


def test_an_empty_store_says_what_to_try(lab):
    assert "lab data prepare smoke" in lab("list")


@pytest.mark.parametrize("arguments", [["--help"], ["check", "smoke"], ["data", "--help"]])
def test_numpy_and_tiktoken_stay_away_from_light_commands(project, arguments):
    code = (
        "import sys; from lab.cli import app\n"
        f"try: app({arguments!r})\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'tiktoken', 'pyarrow', 'torch'} & set(sys.modules))"
    )

    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert printed.splitlines()[-1] == "set()"
