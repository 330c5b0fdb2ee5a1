"""What an experiment may say about `memory-snapshot`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class MemorySnapshotOptions(BaseModel):
    """Which step is recorded, and how much of it is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    step: PositiveInt
    max_entries: PositiveInt = 100_000
    """Allocator events kept, the latest ones: without a bound they fill the host's memory."""
    stacks: bool = False
    """The Python lines that allocated; each event takes several kilobytes with them."""
