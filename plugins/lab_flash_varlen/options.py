"""What an experiment may say about `flash-varlen`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt


class FlashVarlenOptions(BaseModel):
    """Which kernels compute the attention, and how many segment starts one graph holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["auto", "torch", "fa3", "fa4", "flash-attn", "reference"] = "auto"
    """`auto` takes the first of fa3, fa4 and torch that this machine can run; `reference` is plain math on a CPU."""
    segments: PositiveInt | None = None
    """Room for at least this many segments in every plan; by default a little more than the first batch has."""
