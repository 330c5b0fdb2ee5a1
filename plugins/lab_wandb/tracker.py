"""The W&B tracker: brings the mirror of a run directory up to date, row by row, and may be called at any time again."""

from __future__ import annotations

import atexit
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Literal

from lab.errors import LabError
from lab.experiment.bounds import not_text
from lab_wandb import contents, rows
from lab_wandb import link as links
from lab_wandb.alone import alone
from lab_wandb.mirror import opened
from lab_wandb.options import WandbOptions
from lab_wandb.session import reachable
from lab_wandb.settings import WandbSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.runs.directory import RunDirectory
    from lab_wandb.link import Link
    from lab_wandb.mirror import Mirror

STAGE = "LAB_STAGE"
FINISH_SECONDS = {True: 12.0, False: 60.0}
"""How long the last delivery may take: little beside a worker, because the GPU next to it costs money."""


class WandbTracker:
    """Reads the run directory and nothing else. Local files are the truth: whatever W&B lacks is sent again.

    While the run goes on the mirror stays open from one sync to the next; its end, or this process's, closes it.
    """

    def __init__(self, options: WandbOptions | None = None, settings: WandbSettings | None = None) -> None:
        self.options = options or WandbOptions()
        self.settings = settings or read_settings()
        self.finish_seconds = FINISH_SECONDS[STAGE in os.environ]
        self._held = ExitStack()
        self._mirror: Mirror | None = None

    def sync(self, run: RunDirectory) -> str | None:
        """Send what is new; return the mirror's address, which only an online one has."""
        if self.settings.mode == "disabled":
            return None
        if not_text(str(run.path)):
            raise LabError(f"{run.path}: W&B takes no folder whose name is not UTF-8.", "Set LAB_RUNS to another.")
        if self._mirror is None and (done := _complete(run)) and (done.mode == "online" or self._why_offline()):
            return done.url
        mirror = self._mirror or self._open_alone(run)
        ended = contents.status(run) in contents.ENDED
        with self._to_be_sent_later(run):
            mirror.push(ended)
            mirror.save()
        if ended:
            self.close()
        return mirror.link.url

    def close(self) -> None:
        """Deliver and let go of the mirror, if one is open."""
        mirror, self._mirror = self._mirror, None
        if mirror is not None:
            atexit.unregister(self.close)
            with self._to_be_sent_later(mirror.run), self._held:
                mirror.close()

    @contextmanager
    def _to_be_sent_later(self, run: RunDirectory) -> Iterator[None]:
        """What W&B does not take now is sent by the next sync; its failures have no common class."""
        try:
            yield
        except Exception as error:
            self._mirror = None
            self._held.close()
            raise LabError(
                f"W&B did not take all of {run.id}: {type(error).__name__}: {error}",
                f"Try later: lab runs track {run.id} --to wandb",
            ) from error

    def _open_alone(self, run: RunDirectory) -> Mirror:
        try:
            self._held.enter_context(alone(run))
            return self._open(run)
        except BaseException:
            self._held.close()
            raise

    def _open(self, run: RunDirectory) -> Mirror:
        """Online if W&B answers in time; offline, and said so, if not."""
        note = self._why_offline()
        if not note:
            try:
                return self._hold(run, self._link(run, "online"))
            except Exception as error:  # its failures have no common class, and none may cost the mirror
                note = f"W&B refused: {type(error).__name__}: {error}"
        told = f"{note} Later: lab runs track {run.id} --to wandb"
        return self._hold(run, links.moved(self._link(run, "offline"), note=told))

    def _hold(self, run: RunDirectory, link: Link) -> Mirror:
        context = opened(run, link, self.options, self.settings, self.finish_seconds)
        self._mirror = self._held.enter_context(context)
        atexit.register(self.close)
        return self._mirror

    def _why_offline(self) -> str:
        """Why W&B is not even tried; empty when it is."""
        if self.settings.mode == "offline":
            return "WANDB_MODE is offline."
        if self.settings.key() is None:
            return "There is no WANDB_API_KEY."
        return "" if reachable(self.settings.base_url) else f"{self.settings.base_url} does not answer."

    def _link(self, run: RunDirectory, mode: Literal["online", "offline"]) -> Link:
        """Where to go on: a mirror of the other kind holds nothing of this one, a rewound file needs a new one."""
        known = links.load(run)
        if known is None or known.mode != mode:
            return links.first(run.id, mode)
        if rows.prefix_sha256(run.metrics, known.offset) != known.prefix_sha256:
            return links.first(run.id, mode, known.generation + 1)
        return known


def _complete(run: RunDirectory) -> Link | None:
    """The link of a mirror to which nothing needs to be added."""
    known = links.load(run)
    if known is None or not known.finished or contents.status(run) not in contents.ENDED:
        return None
    unchanged = rows.prefix_sha256(run.metrics, known.offset) == known.prefix_sha256
    return known if unchanged and next(rows.read(run.metrics, known.offset, whole=True), None) is None else None
