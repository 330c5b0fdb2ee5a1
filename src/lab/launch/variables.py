"""The variables of this machine: its environment, over what the project's `.env` says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dotenv import dotenv_values

from lab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.settings import Settings


def variables(settings: Settings) -> dict[str, str]:
    """Every variable by name; `.env` follows dotenv's rules for quotes, comments and `export`."""
    file = settings.project / ".env"
    try:
        written = dotenv_values(file)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: cannot be read: {error}") from error
    return {**{name: value for name, value in written.items() if value is not None}, **os.environ}


def export(names: Iterable[str], known: dict[str, str]) -> None:
    """Put variables that only `.env` has into this process's environment, where backends and trackers look."""
    for name in names:
        if name in known:
            os.environ.setdefault(name, known[name])
