"""One bounded session with W&B: online if it answers in time, offline otherwise; it learns the run and nothing else."""

from __future__ import annotations

import os
import socket
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import wandb
from pydantic import ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab_wandb.settings import WandbSettings

REACH_SECONDS = 3.0
INIT_SECONDS = 5.0
"""W&B adds about ten of its own to a failure, so this keeps the whole below twenty."""
QUIET = {
    "console": "off",
    "silent": True,
    "quiet": True,
    "symlink": False,
    "save_code": False,
    "disable_code": True,
    "disable_git": True,
    "disable_job_creation": True,
    "host": "",
    "program": "",
    "finish_timeout_raises": True,
    "x_disable_stats": True,
    "x_disable_meta": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
}
"""No console, code, git, arguments, host or packages: the run directory has all that matters, without secrets."""


@dataclass(frozen=True)
class Place:
    """Where a run's mirror goes."""

    id: str
    name: str
    group: str | None
    project: str
    entity: str | None
    notes: str
    folder: Path


def reachable(base_url: str) -> bool:
    """Whether the server takes a connection soon; W&B itself would try for far longer."""
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        socket.create_connection((parts.hostname or "", port), REACH_SECONDS).close()
    except OSError:
        return False
    return True


@contextmanager
def session(
    place: Place, mode: Literal["online", "offline"], settings: WandbSettings, finish_seconds: float
) -> Iterator[Any]:
    """A W&B run to log to. Whatever W&B raises comes through: its failures have no common class."""
    with _scratch():
        try:
            run = wandb.init(
                id=place.id,
                name=place.name,
                group=place.group,
                project=place.project,
                entity=place.entity,
                notes=place.notes,
                dir=place.folder,
                resume="allow" if mode == "online" else None,
                settings=_settings(mode, settings, finish_seconds),
            )
            try:
                yield run
            except BaseException:
                run.finish(exit_code=1)
                raise
        finally:
            # A refused start holds on to the run's id until W&B's own process has ended.
            wandb.teardown()


def _settings(mode: str, settings: WandbSettings, finish_seconds: float) -> wandb.Settings:
    """Everything that this version of W&B knows of what we want; its x_ names come and go."""
    wanted: dict[str, Any] = {
        **QUIET,
        "mode": mode,
        "base_url": settings.base_url,
        "init_timeout": INIT_SECONDS,
        "finish_timeout": finish_seconds,
    }
    if mode == "online":
        wanted["api_key"] = settings.key()
    known = {name: value for name, value in wanted.items() if name in wandb.Settings.model_fields}
    while True:
        try:
            return wandb.Settings(**known)
        except ValidationError as error:
            refused = {str(fault["loc"][0]) for fault in error.errors() if fault["loc"]} & known.keys()
            if not refused or not all(name.startswith("x_") for name in refused):
                raise
            known = {name: value for name, value in known.items() if name not in refused}


@contextmanager
def _scratch() -> Iterator[None]:
    """Keep W&B quiet, its reports about itself unsent, and its cache out of the home folder."""
    with tempfile.TemporaryDirectory(prefix="lab-wandb-") as folder:
        set_here = {
            "WANDB_CACHE_DIR": folder,
            "WANDB_DATA_DIR": folder,
            "WANDB_SILENT": "true",
            "WANDB_ERROR_REPORTING": "false",
        }
        before = {name: os.environ.get(name) for name in set_here}
        os.environ.update(set_here)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
