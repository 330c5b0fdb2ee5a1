"""MLflow: mirrors a run directory into a local store, or into a server that MLFLOW_TRACKING_URI names."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def trackers() -> list[Part]:
    """The `mlflow` tracker, which is on unless an experiment says `trackers.mlflow = false`."""
    return [
        Part(
            "mlflow",
            target="lab_mlflow.tracker:MlflowTracker",
            summary="MLflow from the run directory, by default into the project's own store; `lab ui` opens it.",
            extra="mlflow",
            options="lab_mlflow.options:MlflowOptions",
        )
    ]
