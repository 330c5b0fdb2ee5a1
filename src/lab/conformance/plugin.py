"""The pytest plugin: one fixture for each contract, which imports nothing until a test asks for it."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _check(kind: str) -> Callable[..., Any]:
    name = f"check_{kind}"

    @pytest.fixture(name=name)
    def fixture() -> Any:
        return getattr(importlib.import_module(f"lab.conformance.{kind}"), name)

    fixture.__doc__ = f"The function that fails unless a {kind} keeps the contract `lab.contracts` states."
    return fixture


check_attention = _check("attention")
check_backend = _check("backend")
check_loop = _check("loop")
check_loss = _check("loss")
check_observer = _check("observer")
check_source = _check("source")
check_tracker = _check("tracker")


@pytest.fixture
def lab_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder of its own as the working directory, without a setting of this machine's lab."""
    folder = tmp_path / "project"
    (folder / ".lab").mkdir(parents=True)
    for name in [name for name in os.environ if name.startswith("LAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    return folder
