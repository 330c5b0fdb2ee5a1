from __future__ import annotations

import json
import math
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sample_runs import edit, write

from lab.runs import records
from lab_mlflow import names, settings, store, viewer
from lab_mlflow.options import MlflowOptions
from lab_mlflow.points import Reader
from lab_mlflow.tracker import MlflowTracker

if TYPE_CHECKING:
    from pathlib import Path

    from lab.runs.directory import RunDirectory

LONG = "x" * 20_000


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its tables and nothing in it: MLflow takes seconds to make one."""
    file = tmp_path_factory.mktemp("store") / "mlflow.db"
    store.opened(settings.Place(f"{settings.SQLITE}{file}"))
    return file


@pytest.fixture
def runs(project: Path, empty_store: Path) -> Path:
    folder = project / ".lab" / "mlflow"
    folder.mkdir()
    shutil.copy(empty_store, folder / "mlflow.db")
    return project / ".runs"


def client() -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=settings.place().uri)


def mirrored(run: RunDirectory) -> Any:
    link = records.read_json(run.tracker_link("mlflow"))
    assert link is not None
    return client().get_run(link["run_id"])


def goes_on(run: RunDirectory) -> None:
    """Leave the records as they are while the run is under way."""
    edit(run.outcome, status="running", ended=None)
    run.stages.unlink()


def history(run: RunDirectory, key: str) -> list[tuple[int, float]]:
    points = client().get_metric_history(mirrored(run).info.run_id, key)
    return sorted((point.step, point.value) for point in points)


def test_a_finished_run_is_mirrored_with_its_true_times_and_status(runs: Path) -> None:
    run = write(runs, steps=20)

    link = MlflowTracker().sync(run)

    found = mirrored(run)
    assert link == f"lab ui {run.id}"
    assert (found.info.status, found.info.run_name) == ("FINISHED", run.id)
    assert (found.info.start_time, found.info.end_time) == (1_796_116_500_000, 1_796_116_560_000)
    assert len(history(run, "train/loss")) == 20
    assert [step for step, _ in history(run, "eval/loss")] == [0, 5, 10, 15, 20]


def test_tags_name_commit_fingerprints_and_machine(runs: Path) -> None:
    run = write(runs, steps=4)

    MlflowTracker().sync(run)

    tags = mirrored(run).data.tags
    assert tags["mlflow.source.git.commit"] == "0123456789abcdef0123456789abcdef01234567"
    assert tags["lab.fingerprint.weights_initial"] == records.read_json(run.summary)["fingerprints"]["weights_initial"]
    assert tags["lab.device"] == "NVIDIA H100 80GB HBM3"


def test_parameters_and_data_sets_are_there(runs: Path) -> None:
    run = write(runs, steps=4)

    MlflowTracker().sync(run)

    found = mirrored(run)
    assert found.data.params["attention.name"] == "sdpa"
    assert found.data.params["optimizer.learning_rate"] == "0.0003"
    contexts = {one.tags[0].value: one.dataset for one in found.inputs.dataset_inputs}
    assert sorted(contexts) == ["train", "validation"]
    assert len(contexts["train"].digest) <= 36
    assert json.loads(contexts["train"].profile)["tokens"] == 20_100


def test_syncing_again_adds_nothing(runs: Path) -> None:
    run = write(runs, steps=20)
    MlflowTracker().sync(run)
    before = [history(run, key) for key in ("train/loss", "eval/loss", "summary/tokens_per_second")]

    MlflowTracker().sync(run)

    assert [history(run, key) for key in ("train/loss", "eval/loss", "summary/tokens_per_second")] == before
    assert len(client().search_runs([mirrored(run).info.experiment_id])) == 1


def test_a_thousand_fast_steps_are_a_few_calls(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow import MlflowClient

    run = write(runs, steps=1000, seconds=0.001)
    sizes, log_batch = [], MlflowClient.log_batch
    monkeypatch.setattr(
        MlflowClient,
        "log_batch",
        lambda self, *args, **named: (sizes.append(len(named.get("metrics", ()))), log_batch(self, *args, **named))[1],
    )

    MlflowTracker().sync(run)

    assert len(sizes) < 20
    assert len(history(run, "train/loss")) == 1000


def test_a_lost_link_finds_its_mirror_again(runs: Path) -> None:
    run = write(runs, steps=10)
    MlflowTracker().sync(run)
    known = mirrored(run).info.run_id
    assert mirrored(run).data.tags["lab.mirrored_bytes"] == str(run.metrics.stat().st_size)
    run.tracker_link("mlflow").unlink()

    MlflowTracker().sync(run)

    assert mirrored(run).info.run_id == known
    assert len(history(run, "train/loss")) == 10


def test_a_growing_run_is_mirrored_piece_by_piece_and_nothing_twice(runs: Path) -> None:
    run = write(runs, steps=20)
    whole = run.metrics.read_bytes()
    cut = whole.index(b'"step":11') + 4  # in the middle of a line
    run.metrics.write_bytes(whole[:cut])
    goes_on(run)
    tracker = MlflowTracker()
    tracker.sync(run)
    part, running = history(run, "train/loss"), mirrored(run).info.status

    run.metrics.write_bytes(whole)
    edit(run.outcome, status="completed")
    tracker.sync(run)

    assert (len(part), running) == (10, "RUNNING")
    assert [step for step, _ in history(run, "train/loss")] == list(range(1, 21))
    assert mirrored(run).info.status == "FINISHED"


def test_a_run_rewound_to_a_checkpoint_gets_a_new_mirror(runs: Path) -> None:
    run = write(runs, steps=20)
    MlflowTracker().sync(run)
    first = mirrored(run).info.run_id
    lines = run.metrics.read_text().replace('"loss":3.', '"loss":4.')
    run.metrics.write_text(lines)

    MlflowTracker().sync(run)

    assert mirrored(run).info.run_id != first
    assert client().get_run(first).info.lifecycle_stage == "deleted"
    assert len(history(run, "train/loss")) == 20


def test_steps_that_a_resumed_run_took_again_replace_those_of_its_first_attempt(runs: Path) -> None:
    run = write(runs, steps=80, every=100)
    whole = run.metrics.read_text().splitlines(keepends=True)
    first = [line for line in whole if json.loads(line)["step"] <= 70]
    again = [f"{json.dumps(json.loads(line) | {'loss': 0.5})}\n" for line in whole if json.loads(line)["step"] > 50]
    run.metrics.write_text("".join(first))
    MlflowTracker().sync(run)
    kept = [line for line in whole if json.loads(line)["step"] <= 50]
    run.metrics.write_text("".join([*kept, *again]))

    MlflowTracker().sync(run)

    losses = dict(history(run, "train/loss"))
    assert list(losses) == list(range(1, 81))
    assert [step for step, loss in losses.items() if loss == 0.5] == list(range(51, 81))


def test_a_thousand_steps_between_two_looks_are_some_calls_and_not_a_call_each(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    calls = []
    log = MlflowClient.log_batch
    monkeypatch.setattr(MlflowClient, "log_batch", lambda *a, **k: (calls.append(1), log(*a, **k))[1])
    run = write(runs, steps=1000, every=100)

    MlflowTracker().sync(run)

    assert len(history(run, "train/loss")) == 1000
    assert len(calls) < 50


def test_the_mirror_is_rebuilt_when_the_store_is_gone(runs: Path, empty_store: Path) -> None:
    run = write(runs, steps=10)
    MlflowTracker().sync(run)
    shutil.copy(empty_store, runs.parent / ".lab" / "mlflow" / "mlflow.db")

    MlflowTracker().sync(run)

    assert len(history(run, "train/loss")) == 10


@pytest.mark.parametrize(
    ("status", "word"), [("failed", "FAILED"), ("stopped", "KILLED"), ("lost", "FAILED"), ("running", "RUNNING")]
)
def test_every_outcome_has_its_status(status: str, word: str, runs: Path) -> None:
    run = write(runs, steps=2, warmup=0, status="completed")
    goes_on(run)
    edit(run.outcome, status=status)

    MlflowTracker().sync(run)

    assert mirrored(run).info.status == word


def test_nan_and_infinity_do_not_stop_a_mirror(runs: Path) -> None:
    run = write(runs, steps=6, nan_steps=frozenset({3}))
    run.metrics.write_text(run.metrics.read_text().replace('"learning_rate":0.0003', '"learning_rate":"Infinity"', 1))

    MlflowTracker().sync(run)

    losses = dict(history(run, "train/loss"))
    assert math.isnan(losses[3])
    assert len(losses) == 6


@pytest.mark.parametrize("name", ["loss@k", "p=0.9", "a[0]", "100%", "a//b", "..", "a:40:b", "\u00fc x/y", "n" * 300])
def test_any_metric_name_is_mirrored_and_can_be_read_back(name: str, runs: Path) -> None:
    run = write(runs, steps=3, warmup=0)
    run.metrics.write_text(run.metrics.read_text().replace('"micro_batches"', json.dumps(name)))

    MlflowTracker().sync(run)

    key = f"values/{names.written(name)}"
    assert [step for step, _ in history(run, key)] == [1, 2, 3]
    link = records.read_json(run.tracker_link("mlflow"))
    assert link["renamed"] == {key: name}
    assert len(name) > 200 or names.read(names.written(name)) == name


def test_a_parameter_too_long_for_mlflow_is_cut_and_said_so(runs: Path) -> None:
    run = write(runs, steps=2, warmup=0)
    edit(run.config, experiment__results=[LONG])
    record = records.read_json(run.config)
    record["experiment"]["observers"] = {"k" * 300: {"value": 1}}
    records.write_json(run.config, record)

    MlflowTracker().sync(run)

    found = mirrored(run)
    link = records.read_json(run.tracker_link("mlflow"))
    assert len(found.data.params["results"]) == 6000
    assert found.data.params["results"].endswith("characters: config.json has all)")
    assert sorted(link["cut"]) == [f"observers.{'k' * 70}", "results"]
    artifacts = {one.path for one in client().list_artifacts(found.info.run_id)}
    assert "config.json" in artifacts


def test_small_artifacts_are_copied_and_nothing_that_leads_out(runs: Path, tmp_path: Path) -> None:
    run = write(runs, steps=2, warmup=0)
    (run.path / "picture.svg").write_text("<svg/>", encoding="utf-8")
    (tmp_path / "secret.json").write_text("{}", encoding="utf-8")
    for path in ("picture.svg", "../../../secret.json", "gone.png"):
        records.append_line(run.artifacts, {"path": path, "kind": "figure", "title": path})

    MlflowTracker().sync(run)

    artifacts = {one.path for one in client().list_artifacts(mirrored(run).info.run_id)}
    assert "picture.svg" in artifacts
    assert not artifacts & {"secret.json", "gone.png", "checkpoint.pt"}


def test_an_experiment_that_was_deleted_comes_back(runs: Path) -> None:
    first = write(runs, steps=2, warmup=0)
    MlflowTracker().sync(first)
    client().delete_experiment(mirrored(first).info.experiment_id)
    second = write(runs, id="sample-20261201-0916-bbbb", steps=2, warmup=0)

    MlflowTracker().sync(second)

    assert mirrored(second).info.experiment_id == mirrored(first).info.experiment_id


def test_a_locked_store_is_given_up_in_bounded_time(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(runs, steps=2, warmup=0)
    monkeypatch.setattr(store, "PATIENCE_SECONDS", 0.2)
    file = settings.place().file
    assert file is not None
    begun = time.monotonic()

    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(store.StoreUnusable, match="database is locked"):
            MlflowTracker().sync(run)

    assert time.monotonic() - begun < 10
    assert not run.tracker_link("mlflow").exists()


def test_a_locked_store_is_asked_again_while_the_run_goes_on(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(runs, steps=4)
    goes_on(run)
    monkeypatch.setattr(store, "PATIENCE_SECONDS", 0.2)
    tracker, file = MlflowTracker(), settings.place().file
    assert file is not None
    with closing(sqlite3.connect(file, isolation_level=None)) as holder:
        holder.execute("BEGIN EXCLUSIVE")
        while_locked = tracker.sync(run)
        holder.execute("ROLLBACK")

    link = tracker.sync(run)

    assert (while_locked, len(history(run, "train/loss"))) == (None, 4)
    assert link is not None


def test_a_store_of_another_version_is_left_alone(runs: Path) -> None:
    run = write(runs, steps=2, warmup=0)
    file = settings.place().file
    assert file is not None
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = 'fffffffffff1'")

    with pytest.raises(store.StoreUnusable, match="another version of MLflow"):
        MlflowTracker().sync(run)


def test_a_store_whose_making_is_cut_off_is_made_by_the_next(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(runs, steps=2, warmup=0)
    file = settings.place().file
    assert file is not None
    file.unlink()
    make, asked = store._client, []

    def cut_off(uri: str) -> object:
        """As kill -9 leaves it: some tables are there."""
        asked.append(uri)
        with closing(sqlite3.connect(uri.removeprefix(settings.SQLITE))) as connection, connection:
            connection.execute("CREATE TABLE experiments (experiment_id INTEGER)")
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "_client", cut_off)
    with pytest.raises(KeyboardInterrupt):
        MlflowTracker().sync(run)
    left = asked == [f"{settings.SQLITE}{file}"] or file.exists()
    monkeypatch.setattr(store, "_client", make)

    assert MlflowTracker().sync(run) is not None
    assert (len(asked), left) == (1, False)
    assert [path.name for path in file.parent.iterdir() if path.name.startswith(f".{file.name}")] == []


def test_a_store_that_was_left_half_made_is_to_be_moved_away(runs: Path) -> None:
    run = write(runs, steps=2, warmup=0)
    file = settings.place().file
    assert file is not None
    file.unlink()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE experiments (experiment_id INTEGER)")

    with pytest.raises(store.StoreUnusable, match="half made") as refused:
        MlflowTracker().sync(run)

    assert "Move the file away" in refused.value.do


def test_a_file_that_is_no_database_is_named_and_left_alone(runs: Path) -> None:
    run = write(runs, steps=2, warmup=0)
    file = settings.place().file
    assert file is not None
    file.write_text("not a database at all, but longer than a header " * 50, encoding="utf-8")

    with pytest.raises(store.StoreUnusable, match="is not a usable database"):
        MlflowTracker().sync(run)

    assert file.read_text(encoding="utf-8").startswith("not a database")


def test_a_server_that_does_not_answer_is_given_up(runs: Path) -> None:
    run = write(runs, steps=2, warmup=0)

    with pytest.raises(store.StoreUnusable, match="does not answer"):
        MlflowTracker(MlflowOptions(uri="http://127.0.0.1:1")).sync(run)


def test_a_long_run_keeps_every_step_of_loss_and_speed_and_some_of_the_rest(runs: Path) -> None:
    run = write(runs, steps=20)
    reader = Reader(run.metrics, stride=5)

    keys = [point.key for points, _ in reader.new() for point in points]

    assert keys.count("train/loss") == keys.count("perf/tokens_per_second") == 20
    assert keys.count("train/gradient_norm") == 5
    assert keys.count("eval/loss") == 5


def test_the_store_lies_in_the_project_wherever_one_stands(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")

    assert settings.place().uri == f"sqlite:///{project}/.lab/mlflow/mlflow.db"


def test_mlflows_own_variable_names_another_store(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5999")

    assert settings.place().uri == "http://127.0.0.1:5999"
    assert viewer.viewer(settings.place(), 5000) == ([], {}, "http://127.0.0.1:5999/#/experiments")


def test_the_viewer_has_one_worker_on_this_machine_only(runs: Path) -> None:
    argv, variables, address = MlflowTracker().viewer(5123)

    assert argv[argv.index("--workers") + 1] == "1"
    assert argv[argv.index("--host") + 1] == "127.0.0.1"
    assert variables["MLFLOW_DISABLE_TELEMETRY"] == "true"
    assert address == "http://127.0.0.1:5123/#/experiments"


def test_a_run_is_viewed_on_its_own_page(runs: Path) -> None:
    run = write(runs, steps=4)
    MlflowTracker().sync(run)
    found = mirrored(run).info

    address = MlflowTracker().viewer(5123, run)[2]

    assert address == f"http://127.0.0.1:5123/#/experiments/{found.experiment_id}/runs/{found.run_id}"


@pytest.mark.parametrize("link", [None, {"uri": "sqlite:////elsewhere/mlflow.db", "experiment_id": "1", "run_id": "a"}])
def test_a_run_that_is_not_in_the_store_is_not_viewed_but_put_there(runs: Path, link: dict[str, str] | None) -> None:
    run = write(runs, steps=4)
    if link is not None:
        records.write_json(run.tracker_link("mlflow"), link)

    with pytest.raises(store.StoreUnusable, match=f"{run.id} is not in sqlite") as error:
        MlflowTracker().viewer(5123, run)

    assert error.value.do == f"Put it there: lab runs track {run.id} --to mlflow"


def test_a_server_of_its_own_shows_a_run_at_its_address(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5999/")
    run = write(runs, steps=4)
    link = {"uri": "http://127.0.0.1:5999/", "experiment_id": "3", "run_id": "abc"}
    records.write_json(run.tracker_link("mlflow"), link)

    assert MlflowTracker().viewer(5000, run) == ([], {}, "http://127.0.0.1:5999/#/experiments/3/runs/abc")


def test_there_is_nothing_to_view_before_the_first_run(project: Path) -> None:
    with pytest.raises(store.StoreUnusable, match="There is no MLflow store yet"):
        MlflowTracker().viewer(5000)


def test_naming_the_tracker_imports_no_mlflow() -> None:
    code = "import sys, lab_mlflow, lab_mlflow.options, lab_mlflow.tracker; print('mlflow' in sys.modules)"

    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "False"
