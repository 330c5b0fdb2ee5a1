"""This machine's folders and switches; nothing here changes what a run computes."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from lab.errors import UsageError

MARKS = (".lab", "pyproject.toml")


class Settings(BaseSettings):
    """Read once a command from the environment and the project's `.env`, then passed on."""

    model_config = SettingsConfigDict(env_prefix="LAB_", extra="ignore", env_ignore_empty=True)

    project: Path = Field(default_factory=lambda: find_project(Path.cwd()))
    """LAB_PROJECT: the folder that holds experiments/, .runs/ and .lab/; found upward from the working directory."""
    runs: Path = Path(".runs")
    """LAB_RUNS: where run directories are made, relative to the project."""
    store: Path = Path(".lab")
    """LAB_STORE: token cache, MLflow store, rentals and index, relative to the project."""
    blocked_plugins: Annotated[frozenset[str], NoDecode] = frozenset()
    """LAB_BLOCKED_PLUGINS: names of plugins that are never imported, separated by commas."""
    trace_plugins: bool = False
    """LAB_TRACE_PLUGINS: print each hook call."""

    @field_validator("blocked_plugins", mode="before")
    @classmethod
    def _comma_separated(cls, value: object) -> object:
        return frozenset(name.strip() for name in value.split(",") if name.strip()) if isinstance(value, str) else value

    @cached_property
    def runs_folder(self) -> Path:
        """The folder of all run directories, absolute."""
        return (self.project / self.runs).absolute()

    @cached_property
    def store_folder(self) -> Path:
        """The folder of what lab keeps between runs, absolute."""
        return (self.project / self.store).absolute()

    @cached_property
    def experiments_folder(self) -> Path:
        """The folder of the project's experiments, absolute."""
        return (self.project / "experiments").absolute()


def find_project(start: Path) -> Path:
    """The nearest folder upward that is a project, as git finds its repository; `start` itself when none is."""
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in MARKS):
            return folder
    return start


def read_settings() -> Settings:
    """The settings of this machine. Raises `UsageError` naming the variable that is wrong."""
    project = find_project(Path.cwd())
    try:
        return Settings(_env_file=project / ".env")
    except ValidationError as error:
        faults = [f"LAB_{'.'.join(map(str, fault['loc'])).upper()}: {fault['msg']}" for fault in error.errors()]
        raise UsageError("\n".join(faults), "Change it in the environment or in .env.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{project / '.env'}: cannot be read: {error}") from error
