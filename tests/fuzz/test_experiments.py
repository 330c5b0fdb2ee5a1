"""Whatever stands in an experiment's file or behind `--set`, it is an experiment or a `LabError`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from fuzz.strategies import bounded, files_of, leaf, only_lab_errors, places, replaced, text, value
from hypothesis import example, given
from hypothesis import strategies as st

from lab.experiment import Experiment, fingerprint, load
from lab.experiment.faults import keys
from lab.experiment.merging import override
from lab.launch.job_of import job_of
from lab.plugins import Plugins
from lab.settings import read_settings

SMOKE = (Path(__file__).parents[2] / "experiments" / "smoke.toml").read_text(encoding="utf-8")
QUANTISE = (Path(__file__).parents[2] / "experiments" / "quantise.toml").read_text(encoding="utf-8")
KEYS = sorted({*keys(Experiment), "observers.profiler.steps", "trackers.mlflow", "attention.provider", "data.source.x"})
PLUGINS = Plugins()


def toml(tree) -> str:
    """A tree of plain values as TOML, in one line a key; what TOML cannot say becomes text."""
    return "".join(f"{json.dumps(key)} = {_inline(below)}\n" for key, below in tree.items())


def _inline(below) -> str:
    if isinstance(below, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in below.items()) + "}"
    if isinstance(below, list):
        return "[" + ", ".join(map(_inline, below)) + "]"
    if isinstance(below, float):
        return repr(below) if below == below and abs(below) != float("inf") else "nan"
    return json.dumps(str(below)) if below is None else json.dumps(below)


def resolve(project, content: bytes, overrides=()):
    """All that a laptop does before it makes a run; what is accepted has a fingerprint, a record and a job."""
    (project / "experiments" / "odd.toml").write_bytes(content)
    before = files_of(project.parent)
    with only_lab_errors():
        loaded = load("odd", read_settings().experiments_folder, overrides)
        experiment = PLUGINS.check(loaded.experiment, loaded.where)
        job = job_of(experiment, PLUGINS, "0" * 64, {})
        assert Experiment.model_validate(json.loads(json.dumps(experiment.model_dump(mode="json")))) == experiment
        assert len(fingerprint(experiment)) == 64
        assert type(job).from_record(json.loads(json.dumps(job.record()))) == job
    assert files_of(project.parent) == before


@bounded(60)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda drawn: drawn.encode("utf-8", "replace")))
def test_any_bytes(project, content):
    resolve(project, content)


@bounded(60)
@given(cut=st.integers(0, len(SMOKE)), gone=st.integers(0, 30), put=text | st.sampled_from("[]{}=.,#\"'\n"))
def test_a_file_with_a_slip_of_the_hand(project, cut, gone, put):
    resolve(project, (SMOKE[:cut] + put + SMOKE[cut + gone :]).encode("utf-8", "replace"))


@pytest.mark.parametrize("base", [SMOKE, QUANTISE], ids=["smoke", "quantise"])
def test_any_value_at_any_place(project, base):
    tree = tomllib.loads(base)

    @bounded(60)
    @given(place=st.sampled_from(list(places(tree))), new=value)
    def at_any_place(place, new):
        resolve(project, toml(replaced(tree, place, new)).encode("utf-8", "replace"))

    at_any_place()


@bounded(80)
@given(key=st.sampled_from(KEYS) | text, new=leaf.map(str) | value.map(_inline))
@example(key="model.width", new="1e400")
@example(key="limits.hours", new="1e308")
@example(key="environment.packages", new='["a @ file:///etc/passwd"]')
@example(key="extends", new='"../../etc/passwd"')
def test_any_setting(project, key, new):
    with only_lab_errors():
        assert override(f"{key}={new}")
    resolve(project, b'extends = "smoke"\n', [f"{key}={new}"])
