from __future__ import annotations

import json

import pytest
from sample_runs import write
from terminals import in_a_terminal

from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.runs.status import FINAL
from lab.settings import read_settings


def make(name, loss=None, status="completed", gpu=None, **experiment):
    path = read_settings().runs_folder / name
    (path / "logs").mkdir(parents=True)
    run = RunDirectory(path)
    records.write_json(run.config, {"schema": 1, "backend": "local", "experiment": {"name": "smoke", **experiment}})
    records.write_json(run.outcome, {"schema": 1, "status": status, "attempt": 1})
    if loss is not None:
        records.write_json(run.summary, {"steps": 6, "loss": {"last": loss}, "elapsed_seconds": 90.0})
    if gpu is not None:
        records.write_json(run.environment, {"device": {"type": "cuda", "name": gpu}})
    return run


@pytest.fixture
def four(project):
    make("smoke-20261201-0915-aaaa", 3.0, gpu="NVIDIA H100 80GB HBM3")
    make("smoke-20261201-0916-bbbb", 2.0, gpu="NVIDIA H200")
    make("smoke-20261201-0917-cccc", 2.5, gpu="NVIDIA H100 80GB HBM3")
    make("smoke-20261201-0918-dddd", status="failed")


def ids(done):
    return [row["id"][-4:] for row in json.loads(done.out)]


def test_a_condition_narrows_the_list(lab, four):
    done = lab("runs", "--where", "loss<2.9 and gpu~h100", "--json")

    assert ids(done) == ["cccc"]


def test_the_least_come_first_and_the_unknown_last(lab, four):
    assert ids(lab("runs", "--sort", "loss", "--json")) == ["bbbb", "cccc", "aaaa", "dddd"]
    assert ids(lab("runs", "--sort", "-loss", "--json")) == ["aaaa", "cccc", "bbbb", "dddd"]


def declare(run, *links):
    config = records.read_json(run.config)
    declarations = [
        {"base": base, "child": child, "changes": [{"key": key, "before": before, "after": after}]}
        for base, child, key, before, after in links
    ]
    records.write_json(run.config, {**config, "declarations": declarations})


def test_what_a_run_was_told_to_change_can_be_listed_searched_and_is_shown(lab, four):
    run = make("smoke-20261201-0919-eeee", 1.0)
    own = ("plain", "smoke", "attention.name", "sdpa", "flex")
    declare(run, own, ("smoke", "--set", "optimizer.learning_rate", 3e-4, 3e-3))
    declare(make("smoke-20261201-0920-ffff"), own)

    listed = lab("runs", "--columns", "run,change", "--json")
    found = lab("runs", "--where", "change~learning_rate", "--json")
    shown = lab("runs", "show", run.id).out

    assert {one["run"][-4:]: one["change"] for one in json.loads(listed.out)} == {
        "aaaa": None,
        "bbbb": None,
        "cccc": None,
        "dddd": None,
        "eeee": "optimizer.learning_rate=0.003",
        "ffff": "attention.name=flex",
    }
    assert ids(found) == ["eeee"]
    assert "optimizer.learning_rate 0.0003 -> 0.003" in shown


@pytest.mark.parametrize("damaged", [7, [7], ["x"], [{"changes": 3}], [{"changes": [None]}], [{}]])
def test_a_damaged_declaration_changes_nothing_that_is_said(lab, project, damaged):
    run = make("smoke-20261201-0919-eeee", 1.0)
    records.write_json(run.config, {**records.read_json(run.config), "declarations": damaged})

    assert json.loads(lab("runs", "--columns", "change", "--json").out) == [{"change": None}]
    assert lab("runs", "show", run.id).code == 0


def test_of_a_sorted_list_the_first_are_shown_and_the_others_counted(lab, four):
    shown = lab("runs", "--sort", "loss", "-n", "1").out

    assert "bbbb" in shown
    assert "3 more: lab runs --all" in shown
    assert len(shown.splitlines()) == 3


def test_a_status_that_no_run_can_have_is_refused_with_those_that_there_are(lab, four):
    assert ids(lab("runs", "--status", "failed", "--json")) == ["dddd"]

    refused = lab("runs", "--status", "bogus")

    assert refused.code == 2
    for word in FINAL:
        assert word in refused.err


def test_columns_are_those_asked_for_in_that_order(lab, four):
    shown = lab("runs", "--columns", "gpu,loss,run", "--where", "loss=2").out

    assert [line.split() for line in shown.splitlines()] == [
        ["GPU", "LOSS", "RUN"],
        ["NVIDIA", "H200", "2.0000", "smoke-20261201-0916-bbbb"],
    ]


def test_columns_shape_the_json_too(lab, four):
    done = lab("runs", "--columns", "loss,took,tag", "--where", "run~bbbb", "--json")

    assert json.loads(done.out) == [{"loss": 2.0, "took": 90.0, "tag": None}]


@pytest.mark.parametrize(
    "arguments", [("--where", "los<3"), ("--sort", "los"), ("--sort", "-los"), ("--columns", "run,los")]
)
def test_an_unknown_field_is_a_usage_error_with_the_nearest(lab, four, arguments):
    done = lab("runs", *arguments)

    assert done.code == 2
    assert "Did you mean 'loss'?" in done.err


def test_when_nothing_matches_it_says_so(lab, four):
    assert lab("runs", "--where", "loss<1").out == "No run is like that. All of them: lab runs --all\n"


def test_a_cpu_is_no_gpu(lab, project):
    run = make("smoke-20261201-0915-aaaa")
    records.write_json(run.environment, {"device": {"type": "cpu", "name": "EPYC"}})
    records.write_json(run.resource, {"status": "none"})

    assert ids(lab("runs", "--where", "gpu=none", "--json")) == ["aaaa"]


def test_until_the_worker_says_it_the_gpu_is_the_rented_one(lab, project):
    run = make("smoke-20261201-0915-aaaa", status="created")
    records.write_json(run.resource, {"status": "running", "gpu": "NVIDIA H200"})

    assert ids(lab("runs", "--where", "gpu~h200", "--json")) == ["aaaa"]


def test_a_dry_run_says_what_would_go_and_deletes_nothing(lab, four):
    done = lab("runs", "rm", "smoke-20261201-0915", "--dry-run")

    assert done.code == 0
    assert done.out.startswith("would delete smoke-20261201-0915-aaaa: 4 files, ")
    assert len(json.loads(lab("runs", "--json").out)) == 4


@pytest.mark.parametrize(
    ("columns", "shown", "left_out"),
    [
        (80, "RUN STATUS STEPS LOSS EVALUATION TOKENS/S", "took"),
        (120, "RUN STATUS STEPS LOSS EVALUATION TOKENS/S TOOK TAGS", ""),
    ],
)
def test_a_narrow_terminal_leaves_columns_out_and_cuts_no_figure(project, columns, shown, left_out):
    for name in ("smoke-20261201-0915-aaaa", "smoke-20261201-0916-bbbb"):
        write(project / ".runs", id=name)

    heading, *lines = in_a_terminal(columns, "runs").splitlines()

    assert heading.split() == shown.split()
    assert [line.split()[:5] for line in lines[:2]] == [
        [name, "\u2713", "completed", "20/20", "3.5929"]
        for name in ("smoke-20261201-0915-aaaa", "smoke-20261201-0916-bbbb")
    ]
    names = left_out.replace(", ", ",")
    told = f"Left out in 80 columns: {left_out}. See them with --columns run,{names}"
    assert lines[2:] == ([told] if left_out else [])


def test_a_slow_run_still_has_a_speed(lab, project):
    write(project / ".runs", seconds=4000.0)

    (line,) = lab("runs", "--columns", "run,tokens_per_second").out.splitlines()[1:]

    assert 0 < float(line.split()[1]) < 1
