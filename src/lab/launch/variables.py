"""The variables of this machine: its environment, over what the project's `.env` says."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lab.settings import variables as settings_variables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lab.settings import Settings


def variables(settings: Settings) -> dict[str, str]:
    """Every variable by name."""
    return settings_variables(settings.project)


def export(names: Iterable[str], known: dict[str, str]) -> None:
    """Put variables that only `.env` has into this process's environment, where backends and trackers look."""
    for name in names:
        if name in known:
            os.environ.setdefault(name, known[name])
