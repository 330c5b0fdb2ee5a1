"""From the job as it was sent to the stage runner's plan: this machine knows its paths and adds the install stage."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import durable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .paths import Places

RUNNER = Path("src", "lab", "jobs", "stages.py")
INSTALL = "install"


def stage_plan(request: dict[str, Any], places: Places, code: Path, given: Mapping[str, str]) -> dict[str, Any]:
    """The plan with every placeholder filled, the way to code and caches, and the install stage in front."""
    words = {
        "{python}": str(places.venv / "bin" / "python"),
        "{run}": str(places.run),
        "{code}": str(code),
        "{store}": str(places.store),
    }
    plan: dict[str, Any] = filled(request["plan"], words)
    plan["stages"] = [_install(request.get("install", {}), places, code), *plan["stages"]]
    plan["environment"] = {**_ways(places, code, given), **plan["environment"]}
    return plan


def filled(value: Any, words: Mapping[str, str]) -> Any:
    """The same value with every placeholder in every string replaced."""
    if isinstance(value, str):
        for placeholder, text in words.items():
            value = value.replace(placeholder, text)
        return value
    if isinstance(value, list):
        return [filled(item, words) for item in value]
    if isinstance(value, dict):
        return {key: filled(item, words) for key, item in value.items()}
    return value


def _install(install: dict[str, Any], places: Places, code: Path) -> dict[str, Any]:
    """The stage that makes the environment in which all others run."""
    order = places.state / "install.json"
    durable.write(order, {**install, "code": str(code), "venv": str(places.venv)})
    return {
        "name": INSTALL,
        "argv": [sys.executable, sys.argv[0], INSTALL, str(order)],
        "seconds": None,
        "forwarded": [],
    }


def _ways(places: Places, code: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Where stages find the code and the caches; a network volume keeps the caches for the next run."""
    path = [str(code / "src"), str(code / "plugins")]
    return {
        "PATH": os.pathsep.join([str(places.venv / "bin"), given.get("PATH", os.defpath)]),
        "PYTHONPATH": os.pathsep.join([*path, *filter(None, [given.get("PYTHONPATH")])]),
        "PYTHONUNBUFFERED": "1",
        "HF_HOME": given.get("HF_HOME") or str(places.store / "hub"),
        "PIP_CACHE_DIR": str(places.store / "pip"),
        "UV_CACHE_DIR": str(places.store / "uv"),
    }
