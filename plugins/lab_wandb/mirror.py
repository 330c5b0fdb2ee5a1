"""An open mirror: takes what the run directory has grown by, as often as it is asked, and closes with the run."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import wandb

from lab_wandb import contents, rows
from lab_wandb.link import moved
from lab_wandb.session import Place, session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.runs.directory import RunDirectory
    from lab_wandb.link import Link
    from lab_wandb.options import WandbOptions
    from lab_wandb.settings import WandbSettings

AXES = {
    "train/step": ("train/*", "eval/*", "perf/*", "memory/*", "system/*", "values/*"),
    "train/tokens": ("by_tokens/*",),
}
"""Our own step is the x axis, because W&B's counter may only rise and ours goes back when a run is resumed."""


class Mirror:
    """One run in W&B."""

    def __init__(self, run: RunDirectory, link: Link, there: Any, options: WandbOptions) -> None:
        self.run, self.link, self._there, self._options = run, link, there, options
        if link.mode == "online" and there.step < link.rows:
            # Rows that were sent but never arrived: the server's own count says where to go on.
            self.link = moved(link, rows=0, offset=0)
        for axis, series in AXES.items():
            there.define_metric(axis)
            for name in series:
                there.define_metric(name, step_metric=axis)

    def push(self, ended: bool) -> None:
        """Send the configuration as far as it is known, and every row that is new."""
        self._there.config.update(contents.config(self.run), allow_val_change=True)
        number, end = self.link.rows, self.link.offset
        for row in rows.read(self.run.metrics, self.link.offset, whole=ended):
            if number >= self._there.step:
                self._there.log(row.values, step=number)
            number, end = number + 1, row.end
        self.link = moved(self.link, rows=number, offset=end)

    def close(self) -> None:
        """Send what is known only at the end, wait for delivery, and write the link."""
        status = contents.status(self.run)
        ended = status in contents.ENDED
        if ended:
            self._there.summary.update(contents.summary(self.run))
            self._upload()
        self._there.finish(exit_code=int(status in ("failed", "lost")))
        self.link = moved(self.link, finished=ended)
        self.save()

    def save(self) -> None:
        """Write down how far the mirror has come."""
        there = self._there
        self.link = moved(
            self.link,
            url=there.url if self.link.mode == "online" else None,
            entity=there.entity or None,
            project=there.project,
            prefix_sha256=rows.prefix_sha256(self.run.metrics, self.link.offset) or "",
        )
        self.link.save(self.run)

    def _upload(self) -> None:
        paths = list(contents.files(self.run, self._options.artifacts))
        if not paths:
            return
        artifact = wandb.Artifact(f"run-{self.link.id}", type="run-files")
        for path in paths:
            artifact.add_file(str(path), name=path.relative_to(self.run.path).as_posix(), policy="immutable")
        self._there.log_artifact(artifact)


@contextmanager
def opened(
    run: RunDirectory, link: Link, options: WandbOptions, settings: WandbSettings, finish_seconds: float
) -> Iterator[Mirror]:
    """A mirror to push to and to close."""
    experiment = contents.config(run)["experiment"]
    again = f" (attempt {link.generation})" if link.generation > 1 else ""
    place = Place(
        id=link.id,
        name=run.id + again,
        group=experiment.get("group"),
        project=options.project or settings.project,
        entity=options.entity or settings.entity,
        notes=experiment.get("description", ""),
        folder=run.path,
    )
    with session(place, link.mode, settings, finish_seconds) as there:
        yield Mirror(run, link, there, options)
