"""Whatever a person calls a run, a tag or a file, nothing is written or deleted beside the folders given."""

from __future__ import annotations

import json

import sample_runs
from fuzz.strategies import ODD_TEXT, bounded, files_of, only_lab_errors, text
from hypothesis import example, given
from hypothesis import strategies as st

from lab.data.cache import TokenCache
from lab.launch.plan import backend_choice
from lab.runs import tags
from lab.runs.directory import RunDirectory
from lab.runs.find import find
from lab.settings import read_settings

NOBODY = "nobody-20261201-0915-cccc"


@bounded(80)
@given(name=text)
def test_a_run_of_any_name_lies_in_the_runs_folder(tmp_path, name):
    before = files_of(tmp_path)

    with only_lab_errors():
        run = RunDirectory.create(tmp_path / "runs", name)
        assert run.path.parent == tmp_path / "runs"
        assert run.id == run.path.name

    new = {*files_of(tmp_path)} - {*before}
    assert all(path.startswith(str(tmp_path / "runs")) for path in new)


@bounded(60)
@given(tag=text, note=text)
def test_any_tag_and_note_come_back_or_are_refused(tmp_path, tag, note):
    run = RunDirectory(tmp_path)

    with only_lab_errors():
        after = tags.change(run, [tag], note=note)
        assert after == tags.read(run)

    assert {*files_of(tmp_path)} <= {str(run.tags)}


@bounded(30)
@given(reference=text, words=st.lists(st.sampled_from(ODD_TEXT), max_size=2))
@example(reference="..", words=["-x"])
@example(reference="/", words=[])
def test_no_name_deletes_what_is_no_run(lab, project, reference, words):
    (project / "precious").mkdir(exist_ok=True)
    (project / "precious" / "thesis.txt").write_text("years")
    kept = sample_runs.Sample().id
    if not (read_settings().runs_folder / kept).exists():
        sample_runs.write(read_settings().runs_folder, steps=2, warmup=1)
    before = files_of(project.parent)
    safe = [word for word in (reference, *words) if word and not kept.startswith(word)]

    answer = lab("runs", "rm", "--yes", "--", NOBODY, *(word.replace("\0", "") for word in safe))

    assert answer.code == 2
    assert "bug in lab" not in answer.err
    assert files_of(project.parent) == before


@bounded(60)
@given(reference=text)
def test_any_path_names_a_run_or_nothing(project, reference):
    before = files_of(project.parent)

    with only_lab_errors():
        assert find(f"./{reference}", read_settings()).config.is_file()
    with only_lab_errors():
        backend_choice("local", [reference, f"{reference}=1"])

    assert files_of(project.parent) == before


@bounded(60)
@given(
    name=st.sampled_from([name for name in ODD_TEXT if "\0" not in name and "\udcff" not in name and len(name) < 256])
)
def test_a_manifest_without_its_seal_opens_no_file_wherever_it_points(tmp_path, name):
    manifest = {"files": {name: {"bytes": 1, "sha256": "0"}}, "format": 1, "type": "<u4", "seal": name}
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))

    with only_lab_errors():
        TokenCache.open(tmp_path)
        raise AssertionError("a manifest without its seal was believed")
