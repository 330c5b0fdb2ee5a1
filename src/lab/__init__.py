"""lab: controlled LLM-training experiments that say what one change does."""

from __future__ import annotations

from lab.hookspecs import Part, hookimpl

__all__ = ["Part", "hookimpl"]
