"""The MLflow tracker: brings the mirror of a run directory up to date, and may be called at any time again.

How far a mirror has come is written in MLflow itself, beside the points, so a lost link or a killed process costs
nothing and no point is sent twice. A run that was rewound to a checkpoint gets a new mirror; the old one is removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lab.runs.status import status
from lab_mlflow import contents, mirror, settings, store
from lab_mlflow.mirror import OFFSET, PREFIX, Mirror
from lab_mlflow.options import MlflowOptions
from lab_mlflow.points import MOST_STEPS, Reader
from lab_mlflow.viewer import page, viewer

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab_mlflow.settings import Place

DONE = "lab.mirror_complete"


class MlflowTracker:
    """Reads the run directory and nothing else."""

    def __init__(self, options: MlflowOptions | None = None) -> None:
        self.options = options or MlflowOptions()
        self._mirror: Mirror | None = None

    def sync(self, run: RunDirectory) -> str | None:
        """Send what is new and return where to look.

        While the run goes on a store that cannot take it now is asked again next time; at the end it is an error.
        """
        try:
            return self._synced(run, settings.place(self.options.uri))
        except store.StoreUnusable:
            if status(run).final:
                raise
            return None

    def _synced(self, run: RunDirectory, place: Place) -> str:
        with store.translated(place):
            now, self._mirror = self._mirror, None  # after an error the next sync asks MLflow how far this one came
            if now is None or now.run != run:
                now = self._opened(run, place)
            mirror.send(now)
            self._describe(now, place)
            self._mirror = now
        return _where(now, place)

    def viewer(self, port: int, run: RunDirectory | None = None) -> tuple[list[str], dict[str, str], str]:
        """The command that shows the store in a browser, what its environment needs, and the address of the page.

        That is the page of `run`, if one is given. Raises `StoreUnusable` when there is nothing to show.
        """
        return viewer(settings.place(self.options.uri), port, run)

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
        return mirror.begun(client, run, experiment_id, reader)

    def _experiment(self, client: Any, run: RunDirectory, place: Place) -> str:
        name = self.options.experiment or contents.experiment(run)
        known = client.get_experiment_by_name(name)
        if known is None:
            location = (place.folder / "artifacts").as_uri() if place.folder else None
            return str(client.create_experiment(name, artifact_location=location))
        if known.lifecycle_stage != "active":
            client.restore_experiment(known.experiment_id)
        return str(known.experiment_id)

    def _describe(self, now: Mirror, place: Place) -> None:
        """Tags, data sets, status and times as they are now; figures and files once the run has ended."""
        from mlflow.entities import RunTag

        client, run = now.client, now.run
        found = contents.tags(run)
        client.log_batch(now.id, tags=[RunTag(key, value) for key, value in found.items()])
        known = client.get_run(now.id)
        if not known.inputs.dataset_inputs:
            mirror.log_datasets(now)
        word = contents.STATUS.get(found.get("lab.status", ""))
        if word is None:
            client.update_run(now.id, status="RUNNING")
        else:
            end = contents.milliseconds(run, "ended")
            if known.data.tags.get(DONE) != _stamp(run):
                self._complete(now, end or 0)
            client.set_terminated(now.id, word, end_time=end)
        mirror.save_link(now, place)

    def _complete(self, now: Mirror, end: int) -> None:
        from mlflow.entities import Metric

        run, client = now.run, now.client
        last = contents.last_step(run)
        figures = [Metric(key, value, end, last) for key, value in contents.figures(run).items()]
        client.log_batch(now.id, metrics=figures)
        for path in contents.files(run, self.options.artifacts):
            client.log_artifact(now.id, str(path))
        client.set_tag(now.id, DONE, _stamp(run))


def _where(now: Mirror, place: Place) -> str:
    """What a person opens, or types where no server is running."""
    if place.uri.startswith("http"):
        return f"{place.uri.rstrip('/')}/{page(now.experiment_id, now.id)}"
    return f"lab ui {now.run.id}"


def _stamp(run: RunDirectory) -> str:
    """Changes when a file that is copied at the end changes."""
    return str(
        max((path.stat().st_mtime_ns for path in (run.summary, run.outcome, run.report) if path.is_file()), default=0)
    )
