"""The command that shows a store in the browser with one worker and nothing that calls home."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lab.runs import records
from lab_mlflow.store import StoreUnusable, probe

if TYPE_CHECKING:
    from lab.runs.directory import RunDirectory
    from lab_mlflow.settings import Place

ENVIRONMENT = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "PYTHONWARNINGS": "ignore",
}
"""Without a job runner the server starts in half the time and takes a quarter of the memory."""

EXPERIMENTS = "#/experiments"
"""Where MLflow lists what is in a store; its first page is about something else."""


def viewer(place: Place, port: int, run: RunDirectory | None = None) -> tuple[list[str], dict[str, str], str]:
    """Arguments, environment and address, of one run's page if asked. Raises `StoreUnusable` for nothing to show."""
    path = f"/{EXPERIMENTS if run is None else _page_of(run, place)}"
    if place.uri.startswith(("http://", "https://")):
        return [], {}, f"{place.uri.rstrip('/')}{path}"
    if place.file is not None:
        if not place.file.exists():
            raise StoreUnusable(
                f"There is no MLflow store yet: {place.file}.", "It is made by the first `lab run NAME`."
            )
        probe(place.file)
    argv = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", place.uri]
    argv += ["--workers", "1", "--host", "127.0.0.1", "--port", str(port), "--uvicorn-opts", "--log-level warning"]
    if place.folder is not None:
        argv += ["--default-artifact-root", (place.folder / "artifacts").as_uri()]
    return argv, ENVIRONMENT, f"http://127.0.0.1:{port}{path}"


def page(experiment_id: str, run_id: str) -> str:
    """Where MLflow shows a run, below the address of its server."""
    return f"#/experiments/{experiment_id}/runs/{run_id}"


def _page_of(run: RunDirectory, place: Place) -> str:
    link = records.read_json(run.tracker_link("mlflow")) or {}
    if link.get("uri") != place.uri:  # without a link, or with one into another store
        raise StoreUnusable(f"{run.id} is not in {place.uri}.", f"Put it there: lab runs track {run.id} --to mlflow")
    return page(str(link.get("experiment_id")), str(link.get("run_id")))
