from __future__ import annotations

import gzip
import json
import subprocess

import pytest

from lab.cli import run_closing
from lab.cli.fact_lines import fact_lines
from lab.compare import formats
from lab.jobs import allowed
from lab.launch.follow import Ending
from lab.runs import environment, records
from lab.runs.directory import RunDirectory, every
from lab.settings import read_settings

TOKEN = "ghp_" + "a1" * 10
QUICK = """
description = "Two commands"
[trackers]
mlflow = false
[[stages]]
name = "make"
run = ["sh", "-c", "echo made; echo 42 > {run}/answer.txt"]
[[stages]]
name = "check"
run = ["python", "-c", "import lab, os; print(lab.__file__.startswith(os.getcwd()))"]
"""
BROKEN = """
[trackers]
mlflow = false
[environment]
packages = ["torch==0.1"]
[[stages]]
name = "train"
run = ["sh", "-c", "echo one; echo the reason; exit 7"]
"""


@pytest.fixture
def project(project):
    for name, text in (("quick", QUICK), ("broken", BROKEN)):
        (project / "experiments" / f"{name}.toml").write_text(text)
    return project


@pytest.fixture
def own_code(monkeypatch):
    """Only the project's own files travel: the checkout that lab comes from may be edited between two commands."""
    monkeypatch.setattr(allowed, "checkout_of", lambda project: project)


def the_run():
    [run] = every(read_settings().runs_folder)
    return run


def test_any_command_runs_is_recorded_and_is_reported(lab, project):
    done = lab("run", "quick")

    run = the_run()
    assert done.code == 0
    assert (run.path / "answer.txt").read_text() == "42\n"
    assert (run.logs / "check.log").read_text() == "True\n"
    assert records.read_json(run.outcome)["status"] == "completed"
    assert run.report.is_file()
    assert "make: started" in done.err
    assert "completed" in done.out
    assert f".runs/{run.id}/report.html" in done.out
    assert f"lab runs show {run.id}" in done.out


def test_json_says_how_it_ended_and_nothing_else(lab, project):
    record = json.loads(lab("run", "quick", "--json").out)

    run = the_run()
    assert (record["run_id"], record["status"], record["exit_code"]) == (run.id, "completed", 0)
    assert record["path"] == str(run.path)
    assert record["report"] == str(run.report)


def test_quiet_prints_the_id_and_nothing_else(lab, project):
    done = lab("run", "quick", "--quiet", "--tag", "baseline")

    assert done.out == f"{the_run().id}\n"
    assert "started" not in done.err
    assert records.read_json(the_run().tags)["tags"] == ["baseline"]


def test_a_run_that_fails_is_exit_1_and_shows_the_end_of_its_log(lab, project):
    done = lab("run", "broken")

    assert done.code == 1
    assert "failed: exit code 7" in done.out
    assert "the reason" in done.out
    assert f"lab runs logs {the_run().id}" in done.out
    assert records.read_json(the_run().outcome) | {"status": "failed", "exit_code": 7, "stage": "train"} == (
        records.read_json(the_run().outcome)
    )


def test_a_dry_run_shows_the_plan_and_the_exact_bundle_and_writes_nothing(lab, project, own_code):
    before = sorted(project.rglob("*"))

    done = lab("run", "quick", "--dry-run", "--files")
    record = json.loads(lab("run", "quick", "--dry-run", "--json").out)

    assert done.code == 0
    assert "echo 42 > {run}/answer.txt" in done.out
    assert "Dry run: nothing was written." in done.out
    assert all(file["path"] in done.out for file in record["bundle"]["files"])
    assert record["bundle"]["sha256"][:12] in done.out
    assert sorted(project.rglob("*")) == before


def test_what_is_changed_is_said_before_it_runs(lab, project):
    said = "optimizer.learning_rate 0.0003 -> 0.003, from smoke"

    done = lab("run", "smoke", "--set", "optimizer.learning_rate=3e-3", "--dry-run")

    assert said in done.out
    assert "change " not in lab("run", "smoke", "--dry-run").out


def test_a_dry_run_sums_the_bundle_up_and_lists_its_files_only_when_asked(lab, own_code):
    record = json.loads(lab("run", "quick", "--dry-run", "--json").out)["bundle"]

    said = lab("run", "quick", "--dry-run").out

    [line] = [line for line in said.splitlines() if line.startswith("bundle ")]
    assert f"{formats.counted(len(record['files']), 'file')}, {formats.size(record['bytes'])}" in line
    assert f"{formats.size(record['archive_bytes'])} packed" in line
    assert [file["path"] for file in record["files"] if file["path"] in said] == []
    assert lab("run", "quick", "--files").code == 2


def test_the_bundle_of_the_dry_run_is_the_one_that_runs(lab, project, own_code):
    planned = json.loads(lab("run", "broken", "--dry-run", "--json").out)["bundle"]

    lab("run", "broken", "--quiet")

    provenance = records.read_json(the_run().provenance)
    assert provenance["bundle_sha256"] == planned["sha256"]
    assert provenance["files"] == {file["path"]: file["sha256"] for file in planned["files"]}


def test_a_machine_that_differs_is_told_or_with_strict_environment_refused(lab, project):
    refused = lab("run", "broken", "--strict-environment")
    told = lab("run", "broken")

    assert refused.code == 3
    assert "package torch==0.1 is declared, here is" in refused.err
    assert "package torch==0.1 is declared, here is" in told.err
    assert len(every(read_settings().runs_folder)) == 1


@pytest.mark.parametrize(
    ("gpu", "told"),
    [
        (None, "machine    no GPU and no container image here; declared: NVIDIA H100 80GB HBM3, acme/torch:2"),
        ("NVIDIA L4", "differs    gpu NVIDIA H100 80GB HBM3 is declared, here is NVIDIA L4"),
    ],
)
def test_what_this_machine_does_not_have_at_all_is_one_line_and_no_difference(lab, project, monkeypatch, gpu, told):
    monkeypatch.setattr(environment, "gpu_name", lambda: gpu)
    declared = "NVIDIA H100 80GB HBM3", f"acme/torch:2@sha256:{'a' * 64}"
    asked = [f"--set=environment.{key}={value}" for key, value in zip(("gpu", "image"), declared, strict=True)]

    lines = [line.rstrip() for line in lab("run", "quick", "--dry-run", *asked).out.splitlines()]

    assert told in lines
    assert [line for line in lines if line.startswith("differs")] == [told] * bool(gpu)


@pytest.mark.parametrize(
    "arguments",
    [("nothing",), ("quick", "--backend", "nowhere"), ("quick", "--set", "stages.0.nam=1"), ("quick", "--set", "x"),
     ("quick", "--backend-option", "x"), ("quick", "--tag", "two words"), ("../quick",), ("quick", "--unknown")],
)  # fmt: skip
def test_wrong_input_is_exit_2_and_leaves_nothing(lab, project, arguments):
    done = lab("run", *arguments)

    assert done.code == 2
    assert "Traceback" not in done.err
    assert every(read_settings().runs_folder) == []
    assert not list(project.rglob(".*.part"))


@pytest.mark.parametrize("command", [("run", "quick", "--backend"), ("run", "quick", "--dry-run", "--backend"),
                                     ("doctor", "--backend")])  # fmt: skip
def test_an_empty_backend_is_refused_with_those_that_there_are(lab, command):
    done = lab(*command, "")

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: no backend is called ''\nValid: local, runpod.")


def test_the_doctor_takes_an_empty_experiment_for_no_other(lab):
    assert lab("doctor", "--data", "").code == 2


@pytest.mark.parametrize("tag", ["two words", "", f"key-{TOKEN}"])
def test_a_dry_run_judges_tags_as_a_real_run_does(lab, tag):
    dry, real = (lab("run", "quick", "--tag", tag, *more) for more in (["--dry-run"], []))

    assert (dry.code, dry.out, dry.err) == (2, "", real.err)


def content(path):
    return gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()


def test_planted_secrets_are_found_nowhere(lab, project, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "zq7-of-the-environment")
    monkeypatch.setenv("num_tokens", "12345678")
    (project / ".env").write_text("WANDB_API_KEY='zq7-of-dotenv'\n")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "remote", "add", "origin", f"https://user:{TOKEN}@github.com/o/r.git"], check=True)
    stage = '[[stages]]\nname = "x"\nrun = '
    (project / "experiments" / "leak.toml").write_text(f'{stage}["x", "--token", "zq7-of-the-arguments"]\n')
    quiet = "[trackers]\nmlflow = false\n"
    (project / "experiments" / "env.toml").write_text(f'{quiet}{stage}["sh", "-c", "env; echo num_tokens tokenizer"]\n')

    assert lab("run", "leak").code == 2
    assert lab("run", "env", "--set", 'description="zq7-of-dotenv"').code == 2
    assert lab("run", "env").code == 0

    run = the_run()
    files = [path for folder in (".runs", ".lab") for path in (project / folder).rglob("*") if path.is_file()]
    secrets = (b"zq7-of", TOKEN.encode())
    assert {path.name: secret for path in files for secret in secrets if secret in content(path)} == {}
    assert "num_tokens tokenizer" in (run.logs / "x.log").read_text()
    assert records.read_json(run.provenance)["repository"]["remote"] == "https://github.com/o/r.git"


def test_a_runs_folder_below_a_file_is_a_usage_error_and_named(lab, project, monkeypatch):
    (project / "file").touch()
    monkeypatch.setenv("LAB_RUNS", "file/runs")

    done = lab("run", "quick")

    assert done.code == 2
    assert "LAB_RUNS: file is not a folder" in done.err
    assert "Traceback" not in done.err


def test_a_report_that_cannot_be_made_costs_nothing_but_a_warning(lab, project, monkeypatch):
    def broken(run, store):
        raise ValueError("no template")

    monkeypatch.setattr("lab.report.page.write", broken)

    done = lab("run", "quick")

    assert done.code == 0
    assert "the report could not be made: ValueError: no template" in done.err


def test_what_a_rented_machine_cost_and_became_stands_in_the_closing_summary(project, capsys):
    run = RunDirectory.create(read_settings().runs_folder, "rented")
    records.write_json(run.cost, {"dollars": 1.25, "dollars_per_hour": 2.5})
    records.write_json(run.resource, {"status": "deleted", "machine": "pod123"})

    run_closing.show(run, Ending("completed", "", 0), None, {})

    shown = " ".join(capsys.readouterr().out.split())
    assert "cost $1.2500 at $2.5000 an hour" in shown
    assert "machine deleted pod123" in shown


def test_what_a_loop_noted_in_words_stands_first_in_the_closing_summary(project, capsys):
    run = RunDirectory.create(read_settings().runs_folder, "noted")
    records.write_json(run.environment, {"notes": {"model": "[another] model", "large_buffers_kept": True}})

    run_closing.show(run, Ending("completed", "", 0), None, {})

    shown = capsys.readouterr().out.split("\n")
    assert shown[3].split() == ["model", "[another]", "model"]
    assert not any("large_buffers" in line for line in shown)


def test_what_a_fact_counts_goes_on_below_itself():
    facts = [("loss", "2 -> 1", "over 6 steps"), ("speed", "317 tokens/s", "32,768 targets in 4 measured steps")]

    lines = "\n".join(line.plain for line in fact_lines(facts, 46)).split("\n")

    assert lines == [
        "loss    2 -> 1         over 6 steps",
        "speed   317 tokens/s   32,768 targets in 4",
        "                       measured steps",
    ]


def test_names_of_facts_are_whole_and_aligned_however_long_a_path_is():
    facts = [("loss", "2 -> 1", "over 6 steps"), ("evaluation", "3", "on fixed inputs"), ("report", "x" * 200, "")]

    lines = [line.plain for line in fact_lines(facts)]

    assert lines[0].startswith("loss         2 -> 1   over")
    assert lines[1].startswith("evaluation   3        on")
    assert lines[2].startswith("report       xxx")
