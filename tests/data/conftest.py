"""Property tests here measure no time: the machine may be busy."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("data", deadline=None, derandomize=True, database=None, max_examples=50)
settings.load_profile("data")
