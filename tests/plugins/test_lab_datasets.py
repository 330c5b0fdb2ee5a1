"""Data sets that `datasets` loads whole: from a folder, and from a hub on loopback at a commit."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from hub.server import Hub, Repository
from pydantic import ValidationError

from lab.errors import LabError, UsageError
from lab_datasets.options import DatasetsOptions
from lab_datasets.source import Datasets

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
TEXTS = [f"text {number}" for number in range(600)]
COMMIT = "d" * 40


@pytest.fixture
def saved(project: Path) -> Path:
    folder = project / "corpus"
    datasets.Dataset.from_dict({"text": TEXTS, "other": list(range(600))}).save_to_disk(str(folder))
    return folder


def test_a_saved_folder_keeps_the_contract_of_a_source(saved: Path, check_source: Callable[..., None]) -> None:
    check_source(Datasets(DatasetsOptions(folder="corpus")), limit=400)


def test_rows_come_in_their_order_and_on_from_any_cursor(saved: Path) -> None:
    documents = list(Datasets(DatasetsOptions(folder="corpus")).documents())
    rest = list(Datasets(DatasetsOptions(folder="corpus")).documents({"row": 300}))

    assert [document.text for document in documents] == TEXTS
    assert rest == documents[300:]


def test_a_changed_file_is_another_identity(saved: Path) -> None:
    before = Datasets(DatasetsOptions(folder="corpus")).identity()
    (saved / "note.txt").write_text("more")

    assert Datasets(DatasetsOptions(folder="corpus")).identity() != before


def test_looking_through_a_data_set_elsewhere_leaves_its_identity(saved: Path) -> None:
    before = Datasets(DatasetsOptions(folder="corpus")).identity()

    datasets.load_from_disk(str(saved)).filter(lambda row: row["other"] > 5)
    for path in saved.iterdir():
        os.utime(path, (0, 0))

    assert len(list(saved.glob("cache-*.arrow"))) == 1
    assert Datasets(DatasetsOptions(folder="corpus")).identity() == before


def test_a_file_that_the_data_set_names_counts_whatever_it_is_called(saved: Path) -> None:
    [data] = saved.glob("data-*.arrow")
    data.rename(saved / "cache-1.arrow")
    state = saved / "state.json"
    state.write_text(state.read_text().replace(data.name, "cache-1.arrow"))

    named = Datasets(DatasetsOptions(folder="corpus"))

    assert len(list(named.documents())) == 600
    assert "cache-1.arrow" in str(named.identity())


def test_a_row_without_text_is_rejected_by_its_number(project: Path) -> None:
    datasets.Dataset.from_dict({"text": ["a", None, "c"]}).save_to_disk(str(project / "corpus"))

    documents = list(Datasets(DatasetsOptions(folder="corpus")).documents())

    assert [document.rejected for document in documents] == [None, "row 2: 'text' is no text", None]


def test_a_wrong_column_split_or_folder_is_named(project: Path, saved: Path) -> None:
    both = datasets.DatasetDict({"train": datasets.Dataset.from_dict({"text": ["a"]})})
    both.save_to_disk(str(project / "both"))
    (project / "empty").mkdir()

    with pytest.raises(LabError, match="no column 'txt'"):
        list(Datasets(DatasetsOptions(folder="corpus", text="txt")).documents())
    with pytest.raises(LabError, match="no split 'test'"):
        list(Datasets(DatasetsOptions(folder="both", split="test")).documents())
    with pytest.raises(LabError, match="holds no data set"):
        list(Datasets(DatasetsOptions(folder="empty")).documents())
    with pytest.raises(UsageError, match="there is no folder"):
        Datasets(DatasetsOptions(folder="absent")).identity()


@pytest.mark.parametrize(
    "options",
    [{}, {"repository": "a/b"}, {"repository": "a/b", "revision": "main"}, {"folder": "x", "revision": COMMIT}],
)
def test_options_that_pin_nothing_are_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        DatasetsOptions(**options)


def test_a_repository_is_loaded_whole_at_its_commit(tmp_path: Path) -> None:
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"text": TEXTS[:40]}), file)
    files = {"README.md": b"# A data set\n", "data/train-00000-of-00001.parquet": file.getvalue()}
    pinned = {"repository": "someone/texts", "revision": COMMIT}

    with Hub(Repository("datasets", "someone/texts", {COMMIT: files})) as hub:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        done = subprocess.run(
            [sys.executable, HERE / "datasets_cases.py"],
            input=json.dumps([pinned, {**pinned, "split": "test"}, {**pinned, "revision": "e" * 40}]),
            capture_output=True, text=True, timeout=60,
            env={**clean, "HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path)},
        )  # fmt: skip

    assert done.returncode == 0, done.stderr[-3000:]
    texts, no_split, no_commit = json.loads(done.stdout)
    assert texts == TEXTS[:40]
    assert "someone/texts cannot be loaded" in no_split
    assert f"has no someone/texts at commit {'e' * 40}" in no_commit
