"""The MLflow tracker: brings the mirror of a run directory up to date, and may be called at any time again.

How far a mirror has come is written in MLflow itself, beside the points, so a lost link or a killed process costs
nothing and no point is sent twice. A run that was rewound to a checkpoint gets a new mirror; the old one is removed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lab.runs import records
from lab_mlflow import contents, settings, store
from lab_mlflow.options import MlflowOptions
from lab_mlflow.points import MOST_STEPS, Point, Reader

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.runs.directory import RunDirectory
    from lab_mlflow.settings import Place

NAME = "mlflow"
BATCH_POINTS, BATCH_PARAMETERS = 1000, 100
MARKED_POINTS = 10_000
"""After so many MLflow is told how far the mirror has come; what a kill makes it send again, MLflow keeps once."""
OFFSET, PREFIX, DONE = "lab.mirrored_bytes", "lab.mirrored_sha256", "lab.mirror_complete"


@dataclass
class Mirror:
    """One run in MLflow, and how to go on with it."""

    client: Any
    run: RunDirectory
    experiment_id: str
    id: str
    reader: Reader
    cut: list[str]


class MlflowTracker:
    """Reads the run directory and nothing else."""

    def __init__(self, options: MlflowOptions | None = None) -> None:
        self.options = options or MlflowOptions()
        self._mirror: Mirror | None = None

    def sync(self, run: RunDirectory) -> str | None:
        """Send what is new and return where to look."""
        place = settings.place(self.options.uri)
        with store.translated(place):
            if self._mirror is None or self._mirror.run != run:
                self._mirror = self._opened(run, place)
            mirror = self._mirror
            _send(mirror)
            self._describe(mirror, place)
        return _where(mirror, place)

    def viewer(self, port: int) -> tuple[list[str], dict[str, str], str]:
        """The command that shows the store in a browser, what its environment needs, and the page's address."""
        from lab_mlflow.viewer import viewer

        return viewer(settings.place(self.options.uri), port)

    def _opened(self, run: RunDirectory, place: Place) -> Mirror:
        client = store.opened(place)
        experiment_id = self._experiment(client, run, place)
        found = client.search_runs([experiment_id], f"tags.`{contents.KEY}` = '{contents.key(run)}'")
        stride = max(1, contents.planned_steps(run) // MOST_STEPS)
        reader = Reader(run.metrics, stride)
        for known in found:
            tags = known.data.tags
            if tags.get(PREFIX) and reader.skip_to(int(tags.get(OFFSET, 0)), tags[PREFIX]):
                return Mirror(client, run, experiment_id, known.info.run_id, reader, contents.parameters(run)[1])
            client.delete_run(known.info.run_id)
        return _begun(client, run, experiment_id, reader)

    def _experiment(self, client: Any, run: RunDirectory, place: Place) -> str:
        name = self.options.experiment or contents.experiment(run)
        known = client.get_experiment_by_name(name)
        if known is None:
            location = (place.folder / "artifacts").as_uri() if place.folder else None
            return str(client.create_experiment(name, artifact_location=location))
        if known.lifecycle_stage != "active":
            client.restore_experiment(known.experiment_id)
        return str(known.experiment_id)

    def _describe(self, mirror: Mirror, place: Place) -> None:
        """Tags, data sets, status and times as they are now; figures and files once the run has ended."""
        from mlflow.entities import RunTag

        client, run = mirror.client, mirror.run
        found = contents.tags(run)
        client.log_batch(mirror.id, tags=[RunTag(key, value) for key, value in found.items()])
        known = client.get_run(mirror.id)
        if not known.inputs.dataset_inputs:
            _log_datasets(mirror)
        status = contents.STATUS.get(found.get("lab.status", ""))
        if status is None:
            client.update_run(mirror.id, status="RUNNING")
        else:
            end = contents.milliseconds(run, "ended")
            if known.data.tags.get(DONE) != _stamp(run):
                self._complete(mirror, end or 0)
            client.set_terminated(mirror.id, status, end_time=end)
        _save_link(mirror, place)

    def _complete(self, mirror: Mirror, end: int) -> None:
        from mlflow.entities import Metric

        run, client = mirror.run, mirror.client
        last = contents.last_step(run)
        figures = [Metric(key, value, end, last) for key, value in contents.figures(run).items()]
        client.log_batch(mirror.id, metrics=figures)
        for path in contents.files(run, self.options.artifacts):
            client.log_artifact(mirror.id, str(path))
        client.set_tag(mirror.id, DONE, _stamp(run))


def _log_datasets(mirror: Mirror) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = []
    for found in contents.datasets(mirror.run):
        context = InputTag("mlflow.data.context", found.pop("context"))
        inputs.append(DatasetInput(Dataset(**found), [context]))
    if inputs:
        mirror.client.log_inputs(mirror.id, datasets=inputs)


def _begun(client: Any, run: RunDirectory, experiment_id: str, reader: Reader) -> Mirror:
    from mlflow.entities import Param

    created = client.create_run(
        experiment_id, start_time=contents.milliseconds(run, "started"), run_name=run.id, tags=contents.tags(run)
    )
    found, cut = contents.parameters(run)
    parameters = [Param(key, value) for key, value in found.items()]
    for some in _batched(parameters, BATCH_PARAMETERS):
        client.log_batch(created.info.run_id, params=some)
    mirror = Mirror(client, run, experiment_id, created.info.run_id, reader, cut)
    _progress(mirror)
    return mirror


def _send(mirror: Mirror) -> None:
    """Send new points in batches, and every now and then how far the mirror has come."""
    waiting: list[Point] = []
    unmarked = 0
    for points, _ in mirror.reader.new():
        waiting += points
        if len(waiting) >= BATCH_POINTS:
            unmarked += _log(mirror, waiting)
            waiting = []
        if unmarked >= MARKED_POINTS:
            _progress(mirror)
            unmarked = 0
    if unmarked + _log(mirror, waiting):
        _progress(mirror)


def _log(mirror: Mirror, points: list[Point]) -> int:
    from mlflow.entities import Metric

    for some in _batched(points, BATCH_POINTS):
        mirror.client.log_batch(mirror.id, metrics=[Metric(*point) for point in some])
    return len(points)


def _progress(mirror: Mirror) -> None:
    from mlflow.entities import RunTag

    reader = mirror.reader
    tags = [RunTag(OFFSET, str(reader.offset)), RunTag(PREFIX, reader.digest.hexdigest())]
    mirror.client.log_batch(mirror.id, tags=tags)


def _save_link(mirror: Mirror, place: Place) -> None:
    link = {
        "schema": 1,
        "uri": place.uri,
        "experiment_id": mirror.experiment_id,
        "run_id": mirror.id,
        "mirrored_bytes": mirror.reader.offset,
        "renamed": mirror.reader.renamed,
        "cut": mirror.cut,
        "every": mirror.reader.stride,
    }
    records.write_json(mirror.run.tracker_link(NAME), link)


def _where(mirror: Mirror, place: Place) -> str:
    path = f"#/experiments/{mirror.experiment_id}/runs/{mirror.id}"
    return f"{place.uri.rstrip('/')}/{path}" if place.uri.startswith("http") else f"lab ui {path}"


def _stamp(run: RunDirectory) -> str:
    """Changes when a file that is copied at the end changes."""
    return str(
        max((path.stat().st_mtime_ns for path in (run.summary, run.outcome, run.report) if path.is_file()), default=0)
    )


def _batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some
