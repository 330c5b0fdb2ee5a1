from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import sample_runs

from lab.compare.facts import read
from lab.runs.directory import RunDirectory
from lab.runs.shapes import SHAPES, fitting


def test_values_that_no_reader_can_use_are_left_out_and_named():
    record = {
        "steps": True,
        "measured": {"flops": 10**400, "mfu": "a", "peak_source": "table", "seconds": math.nan},
        "loss": {"first": None, "evaluations": [{"step": 1, "loss": 2.0}, 7, {"step": "x"}]},
        "fingerprints": 3,
        "anything": object,
    }

    fit, faults = fitting("summary", record)

    assert fit["measured"].keys() == {"peak_source", "seconds"}
    assert fit["loss"] == {"evaluations": [{"step": 1, "loss": 2.0}, {}]}
    assert faults == ["steps", "measured.flops", "measured.mfu", "loss.evaluations.1", "loss.evaluations.2.step",
                      "fingerprints"]  # fmt: skip
    assert fit["anything"] is object
    assert record["loss"]["first"] is None


def test_a_record_without_a_shape_is_left_as_it_is():
    record = {"a": 1}

    assert fitting("receipt", record) == (record, [])


def test_every_shape_is_that_of_a_record():
    assert [name for name in SHAPES if not hasattr(RunDirectory(Path("x")), name)] == []


@pytest.mark.parametrize("steps", [3, 40])
def test_nothing_of_a_whole_run_is_left_out(tmp_path, steps):
    facts = read(sample_runs.write(tmp_path, steps=steps))

    assert facts.unreadable == ()


def test_what_was_left_out_is_among_what_a_comparison_could_not_read(tmp_path):
    run = sample_runs.write(tmp_path, steps=3)
    run.provenance.write_text(json.dumps({"files": 5, "plugins": [None]}))

    assert read(run).unreadable == ("provenance.json: files",)
