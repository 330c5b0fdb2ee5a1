"""What an experiment may say about `torch-linear`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, PositiveInt


class TorchLinearOptions(BaseModel):
    """How the rows are cut."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    chunks: PositiveInt = 16
    """Parts in which the rows are scored; fewer are faster and hold more logits at once."""
