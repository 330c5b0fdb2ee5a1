from __future__ import annotations

import json
from dataclasses import replace

from lab.jobs import CODE, PYTHON, RUN, STORE, Job, Needs, Stage

JOB = Job(
    run_id="smoke-1",
    stages=(
        Stage("prepare", (PYTHON, "-m", "lab", "--run", RUN), 60.0, ("HF_TOKEN",)),
        Stage("any", ("sh", "-c", "echo {other} > {run}/out")),
    ),
    bundle_sha256="b",
    needs=Needs(gpu="H100", packages=("torch==2",)),
    forwarded=("HF_TOKEN",),
    results=("*.json",),
    seconds=100.0,
    attempt=2,
)
PLACES = {PYTHON: "/bin/py", RUN: "/runs/{code}", CODE: "/code", STORE: "/store"}


def test_a_job_survives_its_record_as_json():
    assert Job.from_record(json.loads(json.dumps(JOB.record()))) == JOB


def test_placeholders_are_filled_once_and_other_braces_are_left_alone():
    plan = JOB.stage_plan(PLACES, records="r", logs="l")

    assert plan["stages"][0]["argv"] == ["/bin/py", "-m", "lab", "--run", "/runs/{code}"]
    assert plan["stages"][1]["argv"] == ["sh", "-c", "echo {other} > /runs/{code}/out"]


def test_what_a_stage_leaves_is_looked_for_in_the_run_of_that_machine():
    job = replace(JOB, stages=(replace(JOB.stages[0], leaves="{run}/summary.json"),))

    assert job.stage_plan(PLACES, records="r", logs="l")["stages"][0]["leaves"] == "/runs/{code}/summary.json"


def test_the_stage_runner_learns_names_and_limits_but_no_value():
    plan = JOB.stage_plan(PLACES, records="r", logs="l")

    assert (plan["forwarded"], plan["stages"][0]["forwarded"]) == (["HF_TOKEN"], ("HF_TOKEN",))
    assert (plan["seconds"], plan["attempt"], plan["folder"]) == (100.0, 2, "/code")
    assert plan["environment"] == {"LAB_RUN": "/runs/{code}", "LAB_STORE": "/store"}
