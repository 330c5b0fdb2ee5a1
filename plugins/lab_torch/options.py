"""What an experiment may say about the parts of this plugin."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt


class Options(BaseModel):
    """Nothing unknown gets in, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SdpaOptions(Options):
    """How `sdpa` calls PyTorch."""

    batching: Literal["none", "equal-lengths"] = "equal-lengths"
    """`none` takes one segment after the other, the plain reference; `equal-lengths` all of one length at once."""


class ChunkedOptions(Options):
    """How `chunked` divides the tokens."""

    rows: PositiveInt = 1024
    """How many tokens' logits exist at a time."""


class PaddedOptions(BaseModel):
    """Options of `padded`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunks: PositiveInt = 16
    """Parts in which the rows are scored; fewer are faster and hold more logits at once."""
    compile: bool = False
    """Fuse what happens between the matrix products."""


class TorchLinearOptions(BaseModel):
    """Options of `torch-linear`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunks: PositiveInt = 16
    """Parts in which the rows are scored; fewer are faster and hold more logits at once."""
