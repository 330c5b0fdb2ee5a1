"""Whatever a run's files hold, every command answers: with what it could read, or with a `LabError`."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import sample_runs
from fuzz.strategies import bounded, files_of, leaf, only_lab_errors, places, replaced, value
from hypothesis import given
from hypothesis import strategies as st

from lab.data.cache import TokenCache
from lab.jobs import Job, Stage
from lab.launch import resume
from lab.plugins import Plugins
from lab.rental.archive import job_of
from lab.runs import records
from lab.runs.directory import RunDirectory
from lab.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

lines = st.lists(
    st.binary(max_size=20) | value.map(lambda drawn: json.dumps(drawn).encode()) | st.just(b'{"kind":"step","step":1}'),
    max_size=5,
).map(b"\n".join)
PLUGINS = Plugins()


@bounded(60)
@given(content=lines, cut=st.integers(0, 60))
def test_any_bytes_are_records_or_torn(tmp_path, content, cut):
    path = tmp_path / "lines.jsonl"
    path.write_bytes(content)
    tail = records.Tail(path)

    whole = list(records.read_lines(path))

    assert all(isinstance(record, dict) for record in whole)
    assert records.torn_lines(path) + len(whole) == content.count(b"\n") + (content[-1:] not in (b"", b"\n"))
    assert len(tail.new()) == len(whole) == len(records.last_lines(path))
    with only_lab_errors():
        assert isinstance(records.read_json(path), dict)
    records.append_line(path, {"kind": "after"})
    assert list(records.read_lines(path))[-1] == {"kind": "after"}


@bounded(60)
@given(record=st.dictionaries(st.text(max_size=6), value, max_size=4))
def test_any_record_that_can_be_written_comes_back(tmp_path, record):
    path = tmp_path / "record.json"

    records.write_json(path, {"value": 0})
    with only_lab_errors():
        records.write_json(path, record)

    assert isinstance(records.read_json(path), dict)
    assert files_of(tmp_path) == [str(path)]


NAMES = ("config", "outcome", "resource", "cost", "provenance", "environment", "summary", "data_manifest", "data_stats",
         "receipt", "tags", "stages", "metrics", "artifacts", "tracking")  # fmt: skip
COMMANDS = (
    ("runs",), ("runs", "show", "{run}"), ("runs", "show", "{run}", "--json"), ("runs", "logs", "{run}"),
    ("compare", "{run}", "sample-20261201-0916-bbbb"), ("data", "inspect", "{run}"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_any_value_in_a_record_leaves_every_command_an_answer(lab, project, command):
    runs = read_settings().runs_folder
    run = sample_runs.write(runs, steps=4, warmup=1, every=2)
    sample_runs.write(runs, steps=4, warmup=1, every=2, id="sample-20261201-0916-bbbb")
    records.append_line(run.stages, {"event": "ended", "stage": "train", "seconds": 1.0, "exit_code": 0, "reason": ""})
    records.append_line(run.tracking, {"tracker": "mlflow", "synced": False, "reason": "gone"})
    whole = {name: content(getattr(run, name)) for name in NAMES}
    choices = [(name, place) for name, tree in whole.items() for place in places(tree)]
    before = files_of(project.parent)
    arguments = [run.id if word == "{run}" else word for word in command]

    @bounded(15)
    @given(choice=st.sampled_from(choices), new=leaf | value)
    def with_any_value(choice, new):
        name, place = choice
        path: Path = getattr(run, name)
        kept = path.read_bytes() if path.exists() else None
        tree = replaced(whole[name], place, new)
        many = tree if isinstance(tree, list) else [tree]
        path.write_text("".join(json.dumps(one) + "\n" for one in many), encoding="ascii")
        try:
            answer = lab(*arguments)
        finally:
            path.unlink() if kept is None else path.write_bytes(kept)
        assert "bug in lab" not in answer.err, (name, place, new)
        assert "Traceback" not in answer.err
        assert answer.code in (0, 1, 2, 3)
        assert {*files_of(project.parent)} - {*before} <= {str(project / ".lab" / "runs-index.json")}

    with_any_value()


def content(path):
    if path.suffix == ".jsonl":
        return list(records.read_lines(path))
    return (records.read_json(path) if path.exists() else None) or {"tags": ["a"], "note": "b", "handle": "c"}


@bounded(60)
@given(data=st.data())
def test_any_job_is_a_job_or_refused(tmp_path, data):
    record = Job("run-1", (Stage("train", ("{python}", "-m", "x")),), "0" * 64).record()
    place = data.draw(st.sampled_from(list(places(record))))
    run = RunDirectory(tmp_path)
    run.job.write_text(json.dumps(replaced(record, place, data.draw(value))), encoding="ascii")

    with only_lab_errors():
        assert isinstance(job_of(run), Job)


@bounded(40)
@given(data=st.data())
def test_any_config_is_an_experiment_and_a_backend_or_refused(tmp_path, project, data):
    run = RunDirectory(tmp_path / "runs" / sample_runs.Sample().id)
    if not run.config.exists():
        sample_runs.write(tmp_path / "runs", steps=2, warmup=1)
        shutil.copy(run.config, tmp_path / "whole.json")
    config = records.read_json(tmp_path / "whole.json")
    changed = replaced(config, data.draw(st.sampled_from(list(places(config)))), data.draw(value))
    run.config.write_text(json.dumps(changed), encoding="ascii")

    with only_lab_errors():
        resume.recorded_experiment(run, records.read_json(run.config))
    with only_lab_errors():
        resume.recorded_backend(records.read_json(run.config))
    with only_lab_errors():
        resume.prepare(run, read_settings(), PLUGINS, as_recorded=True)


MANIFEST = {
    "identity": "a", "format": 1, "type": "<u4", "source": {"name": "x"}, "tokenizer": {"sha256": "0"},
    "files": {"train.tokens": {"bytes": 0, "sha256": "0"}},
    "splits": {"train": {"tokens": 1, "largest_token": 1}, "validation": {"tokens": 1, "largest_token": 1}},
}  # fmt: skip


@bounded(60)
@given(place=st.sampled_from(list(places(MANIFEST))), new=value, cut=st.integers(0, 400))
def test_any_manifest_is_refused_before_a_file_of_it_is_opened(tmp_path, place, new, cut):
    folder = tmp_path / "tokens" / "a"
    folder.mkdir(parents=True, exist_ok=True)
    manifest = json.dumps(replaced({**MANIFEST, "seal": "0" * 64}, place, new))
    (folder / "manifest.json").write_text(manifest[:cut] if cut < 200 else manifest, encoding="ascii")

    with only_lab_errors():
        TokenCache.open(folder)
        pytest.fail("a manifest without its seal was believed")
    assert files_of(folder) == [str(folder / "manifest.json")]
