"""The command that shows a store in the browser with one worker and nothing that calls home."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from lab_mlflow.store import StoreUnusable, probe

if TYPE_CHECKING:
    from lab_mlflow.settings import Place

ENVIRONMENT = {
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GIT_PYTHON_REFRESH": "quiet",
    "PYTHONWARNINGS": "ignore",
}
"""Without a job runner the server starts in half the time and takes a quarter of the memory."""


def viewer(place: Place, port: int) -> tuple[list[str], dict[str, str], str]:
    """Arguments, environment and address. Raises `StoreUnusable` when there is nothing to show."""
    if place.uri.startswith(("http://", "https://")):
        return [], {}, place.uri
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
    return argv, ENVIRONMENT, f"http://127.0.0.1:{port}"
