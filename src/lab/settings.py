"""This machine's folders and switches; nothing here changes what a run computes."""

from __future__ import annotations

import logging
import os
from difflib import get_close_matches
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Annotated

from dotenv import dotenv_values
from dotenv.parser import Binding, parse_stream
from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from lab.errors import UsageError
from lab.here import here

PREFIX = "LAB_"
MARKS = (".lab", "pyproject.toml")
logger = logging.getLogger(__name__)


class Settings(BaseSettings):
    """Read once a command from the environment and the project's `.env`, then passed on."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", env_ignore_empty=True)

    project: Path = Field(default_factory=lambda: find_project(here()))
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

    @field_validator("runs", "store", mode="after")
    @classmethod
    def _of_a_home(cls, value: Path) -> Path:
        return Path(os.path.expanduser(value))

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
    try:
        if named:
            folder = here() / os.path.expanduser(named)
            if not folder.is_dir():
                raise UsageError(f"LAB_PROJECT: there is no folder {folder}", "Change it or unset it.")
            return folder
        return find_project(here())
    except FileNotFoundError as error:
        raise UsageError("the working directory no longer exists", "Change to a folder that does.") from error


def read_settings() -> Settings:
    """The settings of this machine. Raises `UsageError` naming the variable that is wrong."""
    project = project_folder()
    file = project / ".env"
    written(file)
    warn_of_misspelt(Settings, file)
    try:
        settings = Settings(_env_file=file, project=project)  # type: ignore[call-arg]  # pydantic-settings takes it
    except ValidationError as error:
        faults = [f"{PREFIX}{'.'.join(map(str, fault['loc'])).upper()}: {fault['msg']}" for fault in error.errors()]
        raise UsageError("\n".join(faults), f"Change it in the environment or in {file}.") from error
    _can_be_folder("runs", settings.runs_folder, settings)
    _can_be_folder("store", settings.store_folder, settings)
    return settings


def _can_be_folder(name: str, folder: Path, settings: Settings) -> None:
    """Refuse a file where a folder of many files belongs; one that is not there yet is made when it is needed."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if there.is_dir() or not os.path.exists(there):
        return
    variable = f"{PREFIX}{name.upper()}"
    if name in settings.model_fields_set:
        raise UsageError(f"{variable}: {there} is not a folder.", f"Name one, or unset {variable}.")
    raise UsageError(f"{there}: a folder of lab belongs here, not a file.", f"Move it away, or set {variable}.")


def variables(project: Path) -> dict[str, str]:
    """Every variable by name: this machine's environment, over what the project's `.env` says by dotenv's rules."""
    return {**written(project / ".env"), **os.environ}


def written(file: Path) -> dict[str, str]:
    """What a `.env` says by dotenv's rules; nothing when there is none.

    Raises `UsageError` for one that cannot be read as a whole: else a key in it would be missing without a word. What
    stands in a line is never told, for it may be a secret.
    """
    text = _text(file)
    faults = [_line_of(binding) for binding in parse_stream(StringIO(text)) if binding.error]
    if faults:
        what = "\n".join(f"{file}, line {line}: is not NAME=value, or its quote is not closed" for line in faults)
        raise UsageError(what, "Close the quote, leave quotes away, or begin the line with # if it is a comment.")
    return {name: value for name, value in dotenv_values(stream=StringIO(text)).items() if value is not None}


def _text(file: Path) -> str:
    if not os.path.lexists(file):
        return ""
    try:
        if not os.path.isfile(file):  # a pipe would be waited for, and whoever writes to it may never come
            raise UsageError(f"{file}: is {_kind(file)}, where a file of variables belongs", "Mend it or move it away.")
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file}: cannot be read: it is not UTF-8", "Save it as UTF-8 text.") from error
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}", "Make it readable or move it away.") from error


def _kind(file: Path) -> str:
    if not os.path.exists(file):
        return "a link that leads to no file"
    return "a folder" if file.is_dir() else "a pipe or device"


def _line_of(binding: Binding) -> int:
    """The number of its line; dotenv counts from the blank lines before it."""
    text = binding.original.string
    return binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")


def variable(name: str) -> str | None:
    """One variable, such as a cloud's key; None when neither the environment nor the project's `.env` sets it."""
    return variables(project_folder()).get(name) or None


def warn_of_misspelt(settings: type[BaseSettings], file: Path) -> None:
    """Point out variables that look like a setting but are none; a stage's own are given to it by the stage runner."""
    if f"{PREFIX}STAGE" in os.environ:
        return
    prefix = settings.model_config["env_prefix"]
    ours = [f"{prefix}{name.upper()}" for name in settings.model_fields]
    for name in {**written(file), **os.environ}:
        near = get_close_matches(name.upper(), ours, n=1, cutoff=0.8) if name.upper().startswith(prefix) else []
        if near and name.upper() not in ours:
            logger.warning("%s is no setting of lab. Did you mean %s?", name, near[0])
