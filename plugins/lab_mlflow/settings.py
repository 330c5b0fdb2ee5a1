"""Where this machine's MLflow store is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

from lab.settings import project_folder
from lab.settings import read_settings as read_lab_settings

SQLITE = "sqlite:///"


class MlflowSettings(BaseSettings):
    """MLflow's own variables, from the environment and the project's `.env`."""

    model_config = SettingsConfigDict(env_prefix="MLFLOW_", extra="ignore", env_ignore_empty=True)

    tracking_uri: str | None = None
    """MLFLOW_TRACKING_URI: a server, or another database; without it the project's own store."""


@dataclass(frozen=True)
class Place:
    """A store: `uri` as MLflow takes it, `folder` where its files are when it is the project's own."""

    uri: str
    folder: Path | None = None

    @property
    def file(self) -> Path | None:
        """The SQLite file, if it is one."""
        return Path(self.uri.removeprefix(SQLITE)) if self.uri.startswith(SQLITE) else None


def place(uri: str | None = None) -> Place:
    """The store that was asked for, or this project's; its address is absolute, so no stray file can arise."""
    settings = MlflowSettings(_env_file=project_folder() / ".env")  # type: ignore[call-arg]  # pydantic-settings takes it
    chosen = uri or settings.tracking_uri
    if chosen is not None:
        return Place(chosen)
    folder = read_lab_settings().store_folder / "mlflow"
    return Place(f"{SQLITE}{folder / 'mlflow.db'}", folder)
