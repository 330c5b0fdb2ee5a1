"""Opens MLflow's store in bounded time, and says in our words what is wrong with it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
import warnings
from contextlib import closing, contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from lab.errors import LabError
from lab.experiment.bounds import not_text
from lab.runs.new_folder import in_the_way
from lab_mlflow.settings import SQLITE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lab_mlflow.settings import Place

PATIENCE_SECONDS = 10.0
OPENING_SECONDS = 90.0
"""The first one to open a new store fills it with tables, which takes seconds; others wait for that."""
HALF_MADE = ("already exists", "duplicate column", "no such table", "no such column")
"""What SQLite says where the making of the tables was cut off, as another program or an older lab may leave it."""
LATER = "Later: lab runs track RUN --to mlflow"
MOVE_AWAY = "Move it away; `lab runs track RUN --to mlflow` fills a new one from the run directories."
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "GIT_PYTHON_REFRESH": "quiet",
}


class StoreUnusable(LabError):
    """MLflow's store cannot take the run now; the run itself is complete without it."""


def opened(place: Place) -> Any:
    """A client of the store, which is made if it is the project's own and not there yet."""
    if place.folder is not None and not_text(str(place.folder)):
        what = f"{place.folder}: MLflow takes no folder whose name is not UTF-8."
        raise StoreUnusable(what, f"Set LAB_STORE to another folder. {LATER}")
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    with _one_at_a_time(place), translated(place):
        if place.file is not None and place.file.exists():
            _require_file(place.file)
            probe(place.file)
        elif place.file is not None:
            _make(place.file)
        elif place.uri.startswith(("http://", "https://")):
            _answers(place.uri)
        return _client(_patient(place))


@contextmanager
def translated(place: Place) -> Iterator[None]:
    """Turn whatever MLflow raises into what is wrong and what to do."""
    try:
        yield
    except LabError:
        raise
    except Exception as error:  # MLflow lets errors of its database and of its HTTP client through as they are
        raise _explained(place, error) from error


def _require_file(file: Path) -> None:
    """Name a folder or a pipe in the database's place: SQLite would blame the disk, or wait for ever."""
    if not file.is_file():
        what = "a folder" if file.is_dir() else "a pipe or device"
        raise StoreUnusable(f"{file}: is {what}, where MLflow's database belongs.", MOVE_AWAY)


def probe(file: Path) -> None:
    """Find out in bounded time whether a database can be written. Raises `StoreUnusable` with the reason."""
    try:
        with closing(sqlite3.connect(file, timeout=PATIENCE_SECONDS, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
    except sqlite3.OperationalError as error:
        raise StoreUnusable(
            f"{file}: MLflow's store cannot be written: {error}.",
            "Another process holds it, or the disk is full or read-only. Later: lab runs track RUN --to mlflow",
        ) from error
    except sqlite3.DatabaseError as error:
        raise StoreUnusable(
            f"{file}: is not a usable database: {error}.",
            MOVE_AWAY,
        ) from error


def _make(file: Path) -> None:
    """Let MLflow make its tables beside the place of the store: cut off half-way, nothing could complete them there."""
    new = file.with_name(f".{file.name}.new")
    _clear(new)
    try:
        _client(f"{SQLITE}{new}")
        new.rename(file)
    except BaseException:
        with suppress(OSError):
            _clear(new)
        raise


def _clear(new: Path) -> None:
    """Remove what an attempt left, SQLite's own files beside it included."""
    for leftover in new.parent.glob(f"{new.name}*"):
        leftover.unlink()


def _client(uri: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of MLflow's use of its own libraries
        from mlflow import MlflowClient

        return MlflowClient(tracking_uri=uri, registry_uri=uri)


@contextmanager
def _one_at_a_time(place: Place) -> Iterator[None]:
    """Two processes that fill one new database with tables would break it."""
    if place.file is None:
        yield
        return
    deadline = time.monotonic() + OPENING_SECONDS
    with _lock_beside(place.file) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise StoreUnusable(
                        f"{place.file}: another process has been opening it for {OPENING_SECONDS:g} s."
                    ) from None
                time.sleep(0.05)
        yield


def _lock_beside(file: Path) -> IO[str]:
    """A file to lock in the store's folder, which is made when it is not there."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        return (file.parent / ".opening.lock").open("w")
    except OSError as error:
        blocked = in_the_way(file.parent)
        why = f"{blocked} is not a folder" if blocked else f"{error.filename}: {error.strerror}"
        raise StoreUnusable(f"{file}: MLflow's store cannot be opened: {why}.", "Mend that. " + LATER) from error


def _patient(place: Place) -> str:
    return f"{place.uri}?timeout={PATIENCE_SECONDS:g}" if place.file is not None else place.uri


def _answers(uri: str) -> None:
    import httpx

    try:
        httpx.get(f"{uri.rstrip('/')}/health", timeout=5.0)
    except httpx.HTTPError as error:
        raise StoreUnusable(
            f"{uri}: the MLflow server does not answer: {error or type(error).__name__}.",
            "Start it, or unset MLFLOW_TRACKING_URI; then: lab runs track RUN --to mlflow",
        ) from error


def _explained(place: Place, error: Exception) -> StoreUnusable:
    text = " ".join(str(error).split())
    later = "lab runs track RUN --to mlflow"
    if "database schema" in text or "Can't locate revision" in text:
        return StoreUnusable(
            f"{place.uri}: the store was written by another version of MLflow: {text[:200]}",
            f"Use that version, or move the file away and fill a new one: {later}",
        )
    if any(sign in text for sign in HALF_MADE):
        return StoreUnusable(
            f"{place.uri}: the store was left half made: {text[:200]}",
            f"Move the file away and fill a new one from the run directories: {later}",
        )
    return StoreUnusable(f"{place.uri}: MLflow refused: {type(error).__name__}: {text[:300]}", f"Later: {later}")
