"""Which libraries a run has for its observers' sake alone: they explain a difference between two runs."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Imports:
    """Remembers the top-level modules that are first imported while an observer's code runs."""

    def __init__(self) -> None:
        self.modules: set[str] = set()

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note what is imported meanwhile. Costs next to nothing when that is nothing: an event of a step is short."""
        before = len(sys.modules)
        try:
            yield
        finally:
            if len(sys.modules) > before:
                latest = set(islice(reversed(sys.modules), len(sys.modules) - before))  # in the order of their import
                self.modules |= {name for name in latest if "." not in name}
