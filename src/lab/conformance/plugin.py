"""The pytest plugin: one fixture for each contract, which imports nothing until a test asks for it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable


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
