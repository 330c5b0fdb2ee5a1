"""A part that nobody offers any more: earlier runs and the experiment itself know what brings it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lab.errors import UsageError
from lab.experiment import Experiment
from lab.plugins import Plugins, UnknownPart
from lab.runs import records
from lab.runs.directory import RunDirectory

ACME = """
from lab import Part, hookimpl

@hookimpl
def losses():
    return [Part("{name}", target="nowhere:Loss")]
"""
BROUGHT = {
    "name": "acme",
    "distribution": "lab-acme",
    "version": "1.0",
    "requirement": "lab-acme==1.0",
    "third_party": True,
    "parts": {"loss": ["acme"]},
}


@pytest.fixture
def ran(tmp_path):
    """Write a run of a day in December that used a plugin."""

    def write(day=1, **changes):
        run = RunDirectory.create(tmp_path / "runs", "x", datetime(2026, 12, day, tzinfo=UTC))
        records.write_json(run.config, {})
        records.write_json(run.provenance, {"plugins": [{**BROUGHT, **changes}]})
        return run

    return write


def advice(tmp_path, kind="loss", name="acme", blocked=()):
    with pytest.raises(UnknownPart) as caught:
        Plugins(blocked, runs=tmp_path / "runs").find(kind, name)
    return caught.value.do


def test_the_newest_run_that_had_it_says_what_brings_it(tmp_path, ran):
    run = ran(day=2)
    ran(day=1, version="0.9", requirement="lab-acme==0.9")

    assert advice(tmp_path) == f"Run {run.id} had it from lab-acme 1.0. Run: pip install 'lab-acme==1.0'"


@pytest.mark.parametrize(
    ("recorded", "named"),
    [({"installed_from": "acme-2"}, "acme-2"), ({"installed_from": None}, "lab-acme"), ({}, "lab-acme")],
    ids=["recorded", "unknown", "older record"],
)
def test_a_plugin_that_came_from_a_folder_is_in_no_index_and_the_folder_is_named(tmp_path, ran, recorded, named):
    ran(requirement=None, **recorded)

    assert advice(tmp_path).endswith(
        f"It came from the folder or file '{named}' of a machine. Run: pip install PATH/TO/{named}"
    )


@pytest.mark.parametrize(
    "changes", [{"third_party": False}, {"parts": {"loss": ["other"]}}, {"parts": {"loop": ["acme"]}}, {"parts": 3}]
)
def test_a_run_that_did_not_have_it_tells_nothing(tmp_path, ran, changes):
    ran(**changes)

    assert advice(tmp_path).startswith("Valid: ")


def test_a_record_that_cannot_be_read_is_passed_over(tmp_path, ran):
    run = ran(day=1)
    ran(day=2).provenance.write_bytes(b"\xff{")

    assert f"Run {run.id} had it" in advice(tmp_path)


def test_a_blocked_plugin_is_named_with_what_blocks_it(tmp_path, ran, install_plugin):
    ran()
    install_plugin("acme", ACME.format(name="acme"))

    said = advice(tmp_path, blocked={"acme"})

    assert said.endswith("had it from lab-acme 1.0, which is blocked: blocked by LAB_BLOCKED_PLUGINS.")


def test_a_newer_version_without_the_part_is_named(tmp_path, ran, install_plugin):
    ran()
    install_plugin("acme", ACME.format(name="acme-2"), version="2.0")

    said = advice(tmp_path)

    assert said.endswith(
        "had it from lab-acme 1.0; lab-acme 2.0, which is installed, has none of this name. "
        "Run: pip install 'lab-acme==1.0'"
    )


def test_what_an_experiment_declares_and_is_not_installed_may_bring_its_parts():
    environment = {"packages": ["lab-acme==1.0", "pydantic", "lab-other>=2"]}
    experiment = Experiment.model_validate(
        {"name": "x", "loop": "acme-loop", "train": {"steps": 1}, "environment": environment}
    )

    with pytest.raises(UsageError) as caught:
        Plugins().check(experiment)

    assert caught.value.do == (
        "environment.packages names lab-acme==1.0 and lab-other>=2, not installed here. "
        "Run: pip install 'lab-acme==1.0' 'lab-other>=2'"
    )


def test_a_wrong_option_is_no_reason_to_install_anything():
    experiment = Experiment.model_validate(
        {"name": "x", "loop": {"name": "chapter02", "widht": 3}, "train": {"steps": 1},
         "environment": {"packages": ["lab-acme==1.0"]}}
    )  # fmt: skip

    with pytest.raises(UsageError) as caught:
        Plugins().check(experiment)

    assert caught.value.do == ""
