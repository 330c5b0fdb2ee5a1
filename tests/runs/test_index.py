from __future__ import annotations

import os
import time

import pytest

from lab.runs import index, records, regular, tags
from lab.runs.directory import RunDirectory
from lab.settings import read_settings


@pytest.fixture
def settings(project):
    return read_settings()


def make(settings, name, word="completed", age_seconds=100):
    path = settings.runs_folder / name
    (path / "logs").mkdir(parents=True)
    run = RunDirectory(path)
    experiment = {"name": "smoke", "train": {"steps": 6}}
    records.write_json(run.config, {"backend": "local", "created": "c", "fingerprint": "f", "experiment": experiment})
    records.write_json(run.outcome, {"status": word, "attempt": 1})
    measured = {"tokens_per_second": 1000.0, "mfu": None}
    loss = {"first": 2.0, "last": 1.0, "evaluations": [{"step": 6, "loss": 1.5}]}
    records.write_json(run.summary, {"steps": 6, "measured": measured, "loss": loss, "elapsed_seconds": 9.0})
    moment = time.time() - age_seconds
    os.utime(path, (moment, moment))
    return run


class Reads:
    """Counts how often a row is read from a run's records."""

    def __init__(self, monkeypatch):
        self.names = []
        read = index.read_row
        monkeypatch.setattr(index, "read_row", lambda run: (self.names.append(run.id), read(run))[1])


def test_a_row_says_what_the_records_say(settings):
    make(settings, "smoke-20261201-0915-aaaa")

    [row] = index.rows(settings)

    assert (row.id, row.experiment, row.status, row.steps, row.planned_steps) == (
        "smoke-20261201-0915-aaaa", "smoke", "completed", 6, 6,
    )  # fmt: skip
    assert (row.loss, row.evaluation_loss, row.tokens_per_second, row.elapsed_seconds) == (1.0, 1.5, 1000.0, 9.0)


def test_a_run_that_ended_is_read_once_and_then_remembered(settings, monkeypatch):
    make(settings, "smoke-20261201-0915-aaaa")
    reads = Reads(monkeypatch)

    first, second = index.rows(settings), index.rows(settings)

    assert first == second
    assert reads.names == ["smoke-20261201-0915-aaaa"]


def test_without_the_cache_the_same_rows_come_back(settings):
    make(settings, "smoke-20261201-0915-aaaa")
    first = index.rows(settings)

    (settings.store_folder / index.CACHE_NAME).unlink()

    assert index.rows(settings) == first


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"fields": [], "rows": {}}', b'{"rows": 5}'])
def test_a_damaged_cache_is_as_good_as_none(settings, content):
    make(settings, "smoke-20261201-0915-aaaa")
    first = index.rows(settings)

    (settings.store_folder / index.CACHE_NAME).write_bytes(content)

    assert index.rows(settings) == first


def test_a_changed_record_is_read_again(settings):
    run = make(settings, "smoke-20261201-0915-aaaa")
    index.rows(settings)

    tags.change(run, add=["baseline"])

    assert index.rows(settings)[0].tags == ("baseline",)


def test_a_directory_that_changed_just_now_is_not_remembered(settings, monkeypatch):
    make(settings, "smoke-20261201-0915-aaaa", age_seconds=0)
    reads = Reads(monkeypatch)

    index.rows(settings)
    index.rows(settings)

    assert len(reads.names) == 2


def test_a_run_that_has_not_ended_is_read_every_time(settings, monkeypatch):
    make(settings, "smoke-20261201-0915-aaaa", word="created")
    reads = Reads(monkeypatch)

    index.rows(settings)
    index.rows(settings)

    assert len(reads.names) == 2


def test_a_deleted_run_is_forgotten(settings):
    make(settings, "smoke-20261201-0915-aaaa")
    gone = make(settings, "smoke-20261201-0915-bbbb")
    index.rows(settings)
    for path in sorted(gone.path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    gone.path.rmdir()

    rows = index.rows(settings)

    assert [row.id for row in rows] == ["smoke-20261201-0915-aaaa"]
    assert "bbbb" not in (settings.store_folder / index.CACHE_NAME).read_text()


def test_only_the_newest_are_read_when_only_they_are_wanted(settings, monkeypatch):
    for minute in range(5):
        make(settings, f"smoke-20261201-091{minute}-aaaa")
    reads = Reads(monkeypatch)

    few = index.rows(settings, newest=2)
    monkeypatch.setattr(index, "FEW", 0)
    remembered = index.rows(settings, newest=2)

    assert [row.id[-9:] for row in few] == ["0913-aaaa", "0914-aaaa"]
    assert few == remembered
    assert len(reads.names) == 4
    assert index.count(settings) == 5


def test_a_run_at_work_shows_its_latest_step(settings):
    run = make(settings, "smoke-20261201-0915-aaaa", word="running")
    run.summary.unlink()
    records.append_line(run.metrics, {"kind": "step", "step": 3, "loss": 1.25})
    records.append_line(run.metrics, {"kind": "evaluation", "step": 2, "loss": 1.75})

    [row] = index.rows(settings)

    assert (row.steps, row.loss, row.evaluation_loss) == (3, 1.25, 1.75)


@pytest.mark.parametrize("name", ["config.json", "summary.json", "outcome.json", "tags.json", "receipt.json"])
@pytest.mark.parametrize(
    "content", ["{", "[]", '{"experiment": 5, "loss": [], "measured": "x", "status": {}, "tags": 7}']
)
def test_a_damaged_record_empties_its_columns_and_hurts_nobody(settings, name, content):
    make(settings, "smoke-20261201-0916-bbbb")
    run = make(settings, "smoke-20261201-0915-aaaa")
    (run.path / name).write_text(content)

    rows = index.rows(settings)

    assert [row.id[-4:] for row in rows] == ["aaaa", "bbbb"]


def test_a_store_that_cannot_be_written_costs_only_time(settings, monkeypatch):
    make(settings, "smoke-20261201-0915-aaaa")

    def refuse(path, content):
        raise regular.unwritable(path, OSError(30, "Read-only file system"))

    monkeypatch.setattr(records, "write_bytes", refuse)

    assert len(index.rows(settings)) == 1


def test_without_a_runs_folder_there_are_no_runs(settings):
    assert index.rows(settings) == []
    assert index.count(settings) == 0
