"""What an experiment says about its mirror in MLflow."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class MlflowOptions(BaseModel):
    """None of it changes what a run computes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    uri: str | None = None
    """Otherwise MLFLOW_TRACKING_URI, otherwise a SQLite file in the project's store."""
    experiment: str | None = None
    """The MLflow experiment; otherwise the experiment's group, otherwise its name."""
    artifacts: tuple[str, ...] = ("figure", "json", "table")
    """Which kinds of the run's artifacts are copied when it has ended."""
