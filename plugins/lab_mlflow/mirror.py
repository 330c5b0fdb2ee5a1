"""One run in MLflow: how it is begun, what it is sent, and how far it has come."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from lab.runs import records
from lab_mlflow import contents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lab.runs.directory import RunDirectory
    from lab_mlflow.points import Point, Reader
    from lab_mlflow.settings import Place

NAME = "mlflow"
BATCH_POINTS, BATCH_PARAMETERS = 1000, 100
MARKED_POINTS = 10_000
"""After so many MLflow is told how far the mirror has come; what a kill makes it send again, MLflow keeps once."""
OFFSET, PREFIX = "lab.mirrored_bytes", "lab.mirrored_sha256"


@dataclass
class Mirror:
    """One run in MLflow, and how to go on with it."""

    client: Any
    run: RunDirectory
    experiment_id: str
    id: str
    reader: Reader
    cut: list[str]


def log_datasets(mirror: Mirror) -> None:
    """Say which tokens were trained and evaluated on."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = []
    for found in contents.datasets(mirror.run):
        context = InputTag("mlflow.data.context", found.pop("context"))
        inputs.append(DatasetInput(Dataset(**found), [context]))
    if inputs:
        mirror.client.log_inputs(mirror.id, datasets=inputs)


def begun(client: Any, run: RunDirectory, experiment_id: str, reader: Reader) -> Mirror:
    """A new mirror with the run's parameters and tags, and nothing sent yet."""
    from mlflow.entities import Param

    created = client.create_run(
        experiment_id, start_time=contents.milliseconds(run, "started"), run_name=run.id, tags=contents.tags(run)
    )
    found, cut = contents.parameters(run)
    parameters = [Param(key, value) for key, value in found.items()]
    for some in _batched(parameters, BATCH_PARAMETERS):
        client.log_batch(created.info.run_id, params=some)
    mirror = Mirror(client, run, experiment_id, created.info.run_id, reader, cut)
    progress(mirror)
    return mirror


def send(mirror: Mirror) -> None:
    """Send new points in batches, and every now and then how far the mirror has come."""
    waiting: list[Point] = []
    unmarked = 0
    for points, _ in mirror.reader.new():
        waiting += points
        if len(waiting) >= BATCH_POINTS:
            unmarked += _log(mirror, waiting)
            waiting = []
        if unmarked >= MARKED_POINTS:
            progress(mirror)
            unmarked = 0
    if unmarked + _log(mirror, waiting):
        progress(mirror)


def _log(mirror: Mirror, points: list[Point]) -> int:
    from mlflow.entities import Metric

    for some in _batched(points, BATCH_POINTS):
        mirror.client.log_batch(mirror.id, metrics=[Metric(*point) for point in some])
    return len(points)


def progress(mirror: Mirror) -> None:
    """Tell MLflow how far the mirror has come."""
    from mlflow.entities import RunTag

    reader = mirror.reader
    tags = [RunTag(OFFSET, str(reader.offset)), RunTag(PREFIX, reader.digest.hexdigest())]
    mirror.client.log_batch(mirror.id, tags=tags)


def save_link(mirror: Mirror, place: Place) -> None:
    """Write where the mirror is, and what had to be written otherwise there."""
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


def _batched(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while some := list(islice(iterator, size)):
        yield some
