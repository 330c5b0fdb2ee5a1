"""This machine's folders and switches; nothing here changes what a run computes."""

from __future__ import annotations

import logging
import os
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Annotated

from dotenv import dotenv_values
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from lab.errors import UsageError

PREFIX = "LAB_"
MARKS = (".lab", "pyproject.toml")
logger = logging.getLogger(__name__)


class Settings(BaseSettings):
    """Read once a command from the environment and the project's `.env`, then passed on."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", env_ignore_empty=True)

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
    debug: bool = False
    """LAB_DEBUG: show the traceback of every error."""

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


def project_folder() -> Path:
    """LAB_PROJECT, or the project around the working directory."""
    named = os.environ.get(f"{PREFIX}PROJECT")
    if named:
        folder = Path(named).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"LAB_PROJECT: there is no folder {folder}", "Change it or unset it.")
        return folder
    try:
        return find_project(Path.cwd())
    except FileNotFoundError as error:
        raise UsageError("the working directory no longer exists", "Change to a folder that does.") from error


def read_settings() -> Settings:
    """The settings of this machine. Raises `UsageError` naming the variable that is wrong."""
    project = project_folder()
    file = project / ".env"
    if file.is_symlink() and not os.path.exists(file):  # else every key in it would be missing without a word
        raise UsageError(f"{file}: is a link that leads to no file", "Mend the link or delete it.")
    try:
        warn_of_misspelt(Settings, file)
        settings = Settings(_env_file=file, project=project)  # type: ignore[call-arg]  # pydantic-settings takes it
    except ValidationError as error:
        faults = [f"{PREFIX}{'.'.join(map(str, fault['loc'])).upper()}: {fault['msg']}" for fault in error.errors()]
        raise UsageError("\n".join(faults), f"Change it in the environment or in {file}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    _can_be_folder("RUNS", settings.runs_folder)
    _can_be_folder("STORE", settings.store_folder)
    return settings


def _can_be_folder(name: str, folder: Path) -> None:
    """Refuse a file where a folder of many files belongs; one that is not there yet is made when it is needed."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if os.path.exists(there) and not there.is_dir():
        raise UsageError(f"{PREFIX}{name}: {there} is not a folder.", f"Name one, or unset {PREFIX}{name}.")


def variables(project: Path) -> dict[str, str]:
    """Every variable by name: this machine's environment, over what the project's `.env` says by dotenv's rules."""
    file = project / ".env"
    try:
        written = dotenv_values(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    return {**{name: value for name, value in written.items() if value is not None}, **os.environ}


def variable(name: str) -> str | None:
    """One variable, such as a cloud's key; None when neither the environment nor the project's `.env` sets it."""
    return variables(project_folder()).get(name) or None


def warn_of_misspelt(settings: type[BaseSettings], file: Path) -> None:
    """Point out variables that look like a setting but are none; a stage's own are given to it by the stage runner."""
    if f"{PREFIX}STAGE" in os.environ:
        return
    prefix = settings.model_config["env_prefix"]
    ours = [f"{prefix}{name.upper()}" for name in settings.model_fields]
    for name in {**dotenv_values(file), **os.environ}:
        near = get_close_matches(name.upper(), ours, n=1, cutoff=0.8) if name.upper().startswith(prefix) else []
        if near and name.upper() not in ours:
            logger.warning("%s is no setting of lab. Did you mean %s?", name, near[0])
