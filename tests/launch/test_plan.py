from __future__ import annotations

import json
import subprocess

import pytest

from lab.errors import LabError, UsageError
from lab.experiment import PartChoice
from lab.jobs import Job
from lab.launch import plan as planning
from lab.launch import recording
from lab.launch.plan import backend_choice, plan
from lab.plugins import Plugins
from lab.runs import records, regular
from lab.settings import read_settings

PLUGINS = Plugins()
LOCAL = PartChoice(name="local")
TOKEN = "ghp_" + "a1" * 10


@pytest.fixture
def write(project):
    def write(name, text):
        (project / "experiments" / f"{name}.toml").write_text(text)

    return write


@pytest.fixture
def settings(project):
    return read_settings()


@pytest.fixture
def small(project, monkeypatch):
    """A bundle of a few files, so that a plan takes milliseconds."""
    from lab.jobs.bundle import Bundle, BundledFile

    small = Bundle((BundledFile("src/lab/x.py", b"x"),))
    monkeypatch.setattr(planning.bundle, "collect", lambda project, files, limit: small)
    return small


def planned(settings, name, *overrides):
    return plan(name, overrides, settings, PLUGINS, LOCAL)


def test_a_training_has_its_three_stages(settings, small):
    job = planned(settings, "smoke").job

    assert [(stage.name, stage.argv) for stage in job.stages] == [
        ("preflight", ("{python}", "-m", "lab.worker.preflight", "{run}")),
        ("prepare", ("{python}", "-m", "lab", "data", "prepare", "--run", "{run}")),
        ("train", ("{python}", "-m", "lab.worker", "{run}")),
    ]
    assert job.seconds == 3600
    assert job.needs.gpu == "NVIDIA H100 80GB HBM3"


def test_an_experiment_of_commands_has_its_own_stages_word_for_word(settings, small, write):
    write(
        "any",
        '[[stages]]\nname = "x"\nrun = ["python", "a b.py", "$(id)", "{run}/o"]\nhours = 0.5\n[limits]\ndollars = 2\n',
    )

    job = planned(settings, "any").job

    assert [(stage.name, stage.argv, stage.seconds) for stage in job.stages] == [
        ("x", ("python", "a b.py", "$(id)", "{run}/o"), 1800.0)
    ]
    assert job.max_dollars == 2


def test_planning_writes_nothing(settings, small, project):
    before = sorted(project.rglob("*"))

    planned(settings, "smoke")

    assert sorted(project.rglob("*")) == before


def test_what_this_machine_lacks_of_the_declared_environment_is_named(settings, small, monkeypatch):
    monkeypatch.setattr(planning.environment, "gpu_name", lambda: None)

    found = planned(settings, "smoke", "environment.packages=['torch==0.1', 'rich']").differences

    assert [(one.what, one.declared) for one in found][:2] == [
        ("package", "torch==0.1"),
        ("gpu", "NVIDIA H100 80GB HBM3"),
    ]


def test_the_config_gives_the_experiment_back(settings, small):
    from lab.experiment import Experiment, fingerprint

    done = planned(settings, "smoke", "train.steps=4")
    config = json.loads(json.dumps(done.config("smoke-1")))

    experiment = Experiment.model_validate(config["experiment"])
    assert experiment.train.steps == 4
    assert config["fingerprint"] == fingerprint(experiment)
    assert config["files"] == ["experiments/smoke.toml"]
    assert config["overrides"] == ["train.steps=4"]
    assert config["declarations"][-1]["changes"] == [{"key": "train.steps", "before": 6, "after": 4}]


STAGE = '[[stages]]\nname = "x"\nrun = '


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f'{STAGE}["x", "--api-key", "abc"]', r"stages\.0\.run: '--api-key' is followed by a value"),
        (f'{STAGE}["x", "planted-value"]', "contains the value of A_TOKEN"),
        (f'description = "{TOKEN}"\n{STAGE}["x"]', "description: it contains a GitHub token"),
        ('extends = "smoke"\n[trackers]\nwandb = { entity = "planted-value" }', "contains the value of A_TOKEN"),
    ],
)
def test_a_secret_in_an_experiment_is_refused_before_anything_is_written(
    settings, small, write, monkeypatch, text, named
):
    monkeypatch.setenv("A_TOKEN", "planted-value")
    write("x", text)

    with pytest.raises(UsageError, match=named):
        planned(settings, "x")

    assert not settings.runs_folder.exists()


def test_a_secret_that_only_the_env_file_knows_is_recognised_too(settings, small, write, project):
    (project / ".env").write_text('export B_SECRET="planted-value"  # note\n')
    write("x", f'{STAGE}["x", "planted-value"]')

    with pytest.raises(UsageError, match="the value of B_SECRET"):
        planned(settings, "x")


def test_tokens_and_tokenizers_are_no_secrets(settings, small, write):
    write("x", f'{STAGE}["x", "--tokenizer", "gpt2", "--num-tokens=8", "--eos-token", "<e>"]')

    assert planned(settings, "x").experiment.stages


SOURCE = """
from lab import Part, hookimpl
from pydantic import BaseModel
from typing import ClassVar

class Options(BaseModel):
    forwards: ClassVar[tuple[str, ...]] = ("ACME_TOKEN", "ACME_UNSET")

@hookimpl
def sources():
    return [Part("acme", target="lab_acme:Options", options="lab_acme:Options")]
"""


def test_a_training_is_believed_to_have_ended_well_only_with_its_summary(settings, small):
    stages = {stage.name: stage.leaves for stage in planned(settings, "smoke").job.stages}

    assert stages == {"preflight": "", "prepare": "", "train": "{run}/summary.json"}


def test_a_source_gets_the_variables_that_it_names_and_no_other_stage_does(
    settings, small, install_plugin, project, monkeypatch
):
    install_plugin("acme", SOURCE)
    (project / ".env").write_text("ACME_TOKEN=planted-value\n")

    job = plan("smoke", ["data.source=acme"], settings, Plugins(), LOCAL).job

    assert job.forwarded == ("ACME_TOKEN",)
    assert {stage.name: stage.forwarded for stage in job.stages} == {
        "preflight": (), "prepare": ("ACME_TOKEN",), "train": (),
    }  # fmt: skip
    assert "planted-value" not in json.dumps(job.record())


def test_a_stage_of_ones_own_names_the_variables_that_it_gets(settings, small, write, project, monkeypatch):
    monkeypatch.setenv("MINE_TOKEN", "is unset below, and again after the test")
    monkeypatch.delenv("MINE_TOKEN")
    write("x", f'{STAGE}["true"]\nforward = ["MINE_TOKEN"]\n[[stages]]\nname = "y"\nrun = ["true"]\n')

    with pytest.raises(UsageError, match="stage x forwards MINE_TOKEN, which is not set"):
        planned(settings, "x")
    (project / ".env").write_text("MINE_TOKEN=planted-value\n")
    job = planned(settings, "x").job

    assert [stage.forwarded for stage in job.stages] == [("MINE_TOKEN",), ()]
    assert job.forwarded == ("MINE_TOKEN",)


def test_a_strangers_plugin_is_in_the_provenance_with_its_hash(settings, small, install_plugin):
    install_plugin("acme", SOURCE, version="3.1")

    [acme] = [
        one for one in plan("smoke", ["data.source=acme"], settings, Plugins(), LOCAL).plugins if one["name"] == "acme"
    ]

    assert (acme["distribution"], acme["version"], acme["third_party"]) == ("lab-acme", "3.1", True)
    assert (acme["requirement"], acme["parts"]) == ("lab-acme==3.1", {"source": ["acme"]})
    assert len(acme["files_sha256"]) == 64


def test_an_unknown_backend_or_option_is_a_usage_error(settings, small):
    with pytest.raises(UsageError, match="no backend is called 'locl'"):
        plan("smoke", [], settings, PLUGINS, PartChoice(name="locl"))
    with pytest.raises(UsageError, match="takes no options"):
        plan("smoke", [], settings, PLUGINS, backend_choice("local", ["x=1"]))
    with pytest.raises(UsageError, match="--backend-option 'x' is not key=value"):
        backend_choice("local", ["x"])


def test_a_run_begins_with_everything_that_is_known(settings, small):
    run, job = recording.create(planned(settings, "smoke"), ["baseline"])

    assert run.id.startswith("smoke-2")
    assert job.run_id == run.id
    assert Job.from_record(records.read_json(run.job)) == job
    assert records.read_json(run.provenance)["files"] == small.hashes
    assert records.read_json(run.outcome)["status"] == "created"
    assert records.read_json(run.resource)["status"] == "none"
    assert records.read_json(run.tags)["tags"] == ["baseline"]
    assert run.bundle.read_bytes() == small.archive


def test_a_run_that_cannot_be_recorded_leaves_nothing(settings, small, monkeypatch):
    done = planned(settings, "smoke")
    write = records.write_bytes

    def full(path, content):
        if path.name == "config.json":
            raise regular.unwritable(path, OSError(28, "No space left on device"))
        write(path, content)

    monkeypatch.setattr(records, "write_bytes", full)
    with pytest.raises(LabError, match="No space left"):
        recording.create(done)

    assert list(settings.runs_folder.iterdir()) == []


def test_a_bad_tag_leaves_no_run(settings, small):
    with pytest.raises(UsageError, match="is no tag"):
        recording.create(planned(settings, "smoke"), ["two words"])

    assert list(settings.runs_folder.iterdir()) == []


def test_changes_since_the_commit_are_kept_as_a_patch(settings, project, monkeypatch):
    def git(*arguments):
        command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", *arguments]
        subprocess.run(command, cwd=project, check=True, capture_output=True)

    git("init")
    git("add", "experiments")
    git("commit", "-m", "x")
    with (project / "experiments" / "smoke.toml").open("a") as file:
        file.write("# edited\n")

    run, _ = recording.create(planned(settings, "smoke"))

    assert "+# edited" in run.patch.read_text()
    assert records.read_json(run.provenance)["repository"]["tracked_changes"] == ["experiments/smoke.toml"]


def test_a_machine_is_asked_for_what_the_parts_need_and_a_declared_version_stands(settings, small, write):
    write("fused", 'extends = "corrected"\ndescription = "as declared"\n')

    packages = planned(settings, "fused").job.needs.packages

    assert packages[:2] == ("torch==2.14.1", "liger-kernel==0.8.4")
    assert {"huggingface-hub", "pyarrow"} <= set(packages)
    assert not [line for line in packages[2:] if line.startswith(("torch", "liger-kernel"))]


def test_the_libraries_of_a_tracker_are_asked_for_only_where_it_runs(settings, small):
    beside = planned(settings, "smoke", "trackers.wandb.where=worker").job.needs.packages
    here = planned(settings, "smoke", "trackers.wandb.where=launch").job.needs.packages

    assert "wandb" in beside
    assert "wandb" not in here


def test_an_option_of_a_backend_is_text():
    with pytest.raises(UsageError, match="--backend-option: note: is not text in UTF-8"):
        backend_choice("local", ["note=\udc80"])
