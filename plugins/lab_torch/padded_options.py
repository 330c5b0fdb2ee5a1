"""What an experiment may say about `padded`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class PaddedOptions(BaseModel):
    """How the logits are cut, and whether their softmax is one compiled kernel."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunks: PositiveInt = 16
    """Parts in which the rows are scored; fewer are faster and hold more logits at once."""
    compile: bool = False
    """Fuse what happens between the matrix products."""
