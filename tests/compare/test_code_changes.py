from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from sample_runs import CODE, edit, write

from lab.compare import facts
from lab.compare.code_changes import code_changes
from lab.runs import records

if TYPE_CHECKING:
    from pathlib import Path

OTHER = "sample-20261201-0916-bbbb"
WORKER = "src/lab/worker/execute.py"


def test_the_diff_of_the_files_that_ran_comes_from_both_bundles(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    a = write(runs)
    b = write(runs, id=OTHER, code=CODE | {WORKER: "def execute():\n    return 2\n", "src/lab/cli/run.py": "pass\n"})

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert (change.path, change.added, change.removed) == (WORKER, 1, 1)
    assert "+    return 2" in change.lines
    assert change.heading == "1 line added, 1 line removed"


def test_a_file_that_only_one_run_has_is_all_added(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    a, b = write(runs), write(runs, id=OTHER, code=CODE | {"src/lab/training/new.py": "one\ntwo\n"})

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert change.heading == "2 lines added"


def test_a_bundle_that_is_gone_or_torn_is_said_and_not_guessed(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    a, b = write(runs), write(runs, id=OTHER, code=CODE | {WORKER: "other\n"})
    a.bundle.unlink()
    b.bundle.write_bytes(b.bundle.read_bytes()[:40])

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert change.note == "the bundle of both runs is not there to look into"


def test_a_pipe_in_place_of_a_bundle_is_not_waited_for(tmp_path: Path) -> None:
    runs = tmp_path / ".runs"
    a, b = write(runs), write(runs, id=OTHER, code=CODE | {WORKER: "other\n"})
    a.bundle.unlink()
    os.mkfifo(a.bundle)

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert change.note == "the bundle of run A is not there to look into"


def test_a_plugin_from_elsewhere_has_no_diff_and_says_so(tmp_path: Path) -> None:
    a, b = write(tmp_path), write(tmp_path, id=OTHER)
    for run, digest in ((a, "one"), (b, "other")):
        plugin = {"name": "acme", "files_sha256": digest, "third_party": True}
        records.write_json(run.provenance, {**(records.read_json(run.provenance) or {}), "plugins": [plugin]})

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert change.path == "plugin acme"
    assert (
        change.heading == "other files in each run; installed beside lab, so no bundle holds them to show their lines"
    )


@pytest.mark.parametrize(("first", "alone"), [(True, "A"), (False, "B")])
def test_a_plugin_that_one_run_alone_used_is_called_that(first: bool, alone: str, tmp_path: Path) -> None:
    a, b = write(tmp_path), write(tmp_path, id=OTHER)
    edit(a.provenance if first else b.provenance, plugins=[{"name": "acme", "files_sha256": "1", "third_party": True}])

    (change,) = code_changes(facts.read(a), facts.read(b))

    assert change.heading.startswith(f"used by run {alone} alone; installed beside lab")
