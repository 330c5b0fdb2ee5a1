"""One class for each table of an experiment's file, with the rules that concern that table alone."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lab.experiment.values import (
    Count,
    CountOrNone,
    Decay,
    Dollars,
    Gigabytes,
    Hours,
    Image,
    Name,
    NotNegative,
    Package,
    Positive,
    Share,
    Whole,
)

GPT2 = "openai-community/gpt2"


class Section(BaseModel):
    """One table: nothing unknown gets in, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PartChoice(Section):
    """Which part, by name, and the options it gets; `"sdpa"` is short for `{ name = "sdpa" }`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: Name

    @property
    def options(self) -> dict[str, Any]:
        """What stands beside the name, unchecked: only the part's own options model can judge it."""
        return dict(self.model_extra or {})


def _named(value: object) -> object:
    if not isinstance(value, (str, dict, PartChoice)):
        said = str(value).lower() if isinstance(value, bool) else repr(value)
        raise ValueError(f"must be the name of a part, in quotes, or a table with its name and options, not {said}")
    return {"name": value} if isinstance(value, str) else value


Choice = Annotated[PartChoice, BeforeValidator(_named)]


class Tokenizer(Section):
    """The vocabulary, at one commit of its repository."""

    name: Name = GPT2
    revision: Name = "607a30d783dfa663caf39e06633721c8d4cfcd7e"

    @model_validator(mode="after")
    def _pinned(self) -> Self:
        if self.name != GPT2 and "revision" not in self.model_fields_set:
            raise ValueError(f"revision is missing: {self.name} must be pinned to one commit")
        return self


class Data(Section):
    """Which documents become tokens, how they are split, and how many tokens each split admits."""

    source: Choice
    tokenizer: Tokenizer = Tokenizer()
    context: Count = 4096
    split_seed: Whole = 20261003
    validation_fraction: Share = 0.05
    train_tokens: Count
    validation_tokens: Count
    max_documents: Count


class Model(Section):
    """A GPT-style decoder; the vocabulary is the tokenizer's and the positions are `data.context`."""

    layers: Count
    width: Count
    heads: Count

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Batch(Section):
    """How large one micro-batch is (`packs` of `data.context`, or a budget of `tokens`), and how many make a step."""

    packs: Count | None = None
    tokens: Count | None = None
    micro_batches: Count = 1
    buffer: Count = 64
    static: bool = False

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.packs is None) == (self.tokens is None):
            raise ValueError("give either packs or tokens, not both and not neither")
        return self


class Optimizer(Section):
    """AdamW at a constant learning rate."""

    learning_rate: Positive = 3e-4
    weight_decay: NotNegative = 0.1
    betas: tuple[Decay, Decay] = (0.9, 0.95)
    clip: Positive = 1.0
    fused: bool = False


class Train(Section):
    """How many optimizer steps, and how each is computed; the first `warmup_steps` are not measured."""

    steps: Count
    warmup_steps: CountOrNone = 0
    precision: Literal["bf16-autocast", "fp32"] = "bf16-autocast"
    residual: Literal["fp32", "bf16"] = "fp32"
    """What the stream between the blocks is kept in; BF16 halves its traffic and rounds after every block."""
    compile: bool = False
    prefetch: bool = False

    @model_validator(mode="after")
    def _residual_fits_precision(self) -> Self:
        if self.residual == "bf16" and self.precision == "fp32":
            raise ValueError('residual "bf16" belongs to precision "bf16-autocast", not to "fp32"')
        return self

    @model_validator(mode="after")
    def _warmup_leaves_steps(self) -> Self:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} leaves none of the {self.steps} steps to measure")
        return self


class Evaluate(Section):
    """The fixed validation batches that every evaluation sees, and when."""

    every: Count
    batches: Count
    tokens: Count
    before_training: bool = False


class Checkpoint(Section):
    """After how many steps the run is saved; the last step is always saved when `every` is given."""

    every: Count | None = None


class Environment(Section):
    """The machine and packages that a rented machine gets, and that a local one is compared with."""

    gpu: Name | None = None
    gpus: Count = 1
    image: Image | None = None
    packages: tuple[Package, ...] = ()
    torch_index: str | None = Field(default=None, max_length=50, pattern=r"^[a-z0-9.]+$")
    disk_gb: Gigabytes = 30
    volume_gb: Gigabytes | None = None
    network_volume: Name | None = None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.gpus > 1:
            raise ValueError(f"gpus = {self.gpus}: more than one GPU is not supported yet")
        if self.volume_gb is not None and self.network_volume is not None:
            raise ValueError("give either volume_gb or network_volume, not both")
        return self


class Limits(Section):
    """When a run is stopped although it has not finished."""

    hours: Hours = 1.0
    dollars: Dollars | None = None


class StageSection(Section):
    """One command of an experiment that trains nothing with `lab`: an argument list, never a shell line."""

    name: str = Field(max_length=50, pattern=r"^[a-z][a-z0-9-]*$")
    run: tuple[str, ...] = Field(min_length=1)
    hours: Hours | None = None
    forward: tuple[Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = ()
    """Names of environment variables that this stage gets, secrets included; their values are never written down."""
