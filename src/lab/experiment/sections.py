"""An experiment's shape: one class for each table of its TOML file, with the rules that need no other file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, FiniteFloat, PositiveInt, model_validator

Fraction = Annotated[FiniteFloat, Field(ge=0, le=1)]
Positive = Annotated[FiniteFloat, Field(gt=0)]
NotNegative = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """One table: nothing unknown gets in, nothing changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PartChoice(Section):
    """Which part, by name, and the options it gets; `"sdpa"` is short for `{ name = "sdpa" }`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(min_length=1)

    @property
    def options(self) -> dict[str, Any]:
        """What stands beside the name, unchecked: only the part's own options model can judge it."""
        return dict(self.model_extra or {})


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


def _table(value: object) -> object:
    """Let `mlflow = true` stand for an empty table; `false` was dropped before."""
    return {} if value is True else value


Choice = Annotated[PartChoice, BeforeValidator(_named)]
Options = Annotated[dict[str, Any], BeforeValidator(_table)]


class Tokenizer(Section):
    """The vocabulary, at one commit of its repository."""

    name: str = "openai-community/gpt2"
    revision: str = "607a30d783dfa663caf39e06633721c8d4cfcd7e"


class Data(Section):
    """Which documents become tokens, how they are split, and how many tokens each split admits."""

    source: Choice
    tokenizer: Tokenizer = Tokenizer()
    context: PositiveInt = 4096
    split_seed: int = 20261003
    validation_fraction: Fraction = 0.05
    train_tokens: PositiveInt
    validation_tokens: PositiveInt
    max_documents: PositiveInt


class Model(Section):
    """A GPT-style decoder; the vocabulary is the tokenizer's and the positions are `data.context`."""

    layers: PositiveInt
    width: PositiveInt
    heads: PositiveInt

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Model:
        if self.width % self.heads:
            raise ValueError(f"width {self.width} is not a multiple of heads {self.heads}")
        return self


class Batch(Section):
    """How many tokens one micro-batch holds (`packs` of `data.context`, or a budget of `tokens`) and how many make a step."""

    packs: PositiveInt | None = None
    tokens: PositiveInt | None = None
    micro_batches: PositiveInt = 1
    buffer: PositiveInt = 64
    static: bool = False

    @model_validator(mode="after")
    def _one_size(self) -> Batch:
        if (self.packs is None) == (self.tokens is None):
            raise ValueError("give either packs or tokens, not both and not neither")
        return self


class Optimizer(Section):
    """AdamW at a constant learning rate."""

    learning_rate: Positive = 3e-4
    weight_decay: Annotated[FiniteFloat, Field(ge=0)] = 0.1
    betas: tuple[Fraction, Fraction] = (0.9, 0.95)
    clip: Positive = 1.0
    fused: bool = False


class Train(Section):
    """How many optimizer steps, and how each is computed; the first `warmup_steps` are not measured."""

    steps: PositiveInt
    warmup_steps: NotNegative = 0
    precision: Literal["bf16-autocast", "fp32"] = "bf16-autocast"
    compile: bool = False
    prefetch: bool = False

    @model_validator(mode="after")
    def _warmup_leaves_steps(self) -> Train:
        if self.warmup_steps >= self.steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} leaves none of the {self.steps} steps to measure")
        return self


class Evaluate(Section):
    """The fixed validation batches that every evaluation sees, and when."""

    every: PositiveInt
    batches: PositiveInt
    tokens: PositiveInt
    before_training: bool = False


class Checkpoint(Section):
    """After how many steps the run is saved; the last step is always saved when `every` is given."""

    every: PositiveInt | None = None


class Environment(Section):
    """The machine and packages that a rented machine gets, and that a local one is compared with."""

    gpu: str | None = None
    gpus: PositiveInt = 1
    image: str | None = None
    packages: tuple[str, ...] = ()
    torch_index: str | None = None
    disk_gb: PositiveInt = 30
    volume_gb: PositiveInt | None = None
    network_volume: str | None = None

    @model_validator(mode="after")
    def _possible(self) -> Environment:
        if self.gpus > 1:
            raise ValueError(f"gpus = {self.gpus}: more than one GPU is not supported yet")
        if self.volume_gb is not None and self.network_volume is not None:
            raise ValueError("give either volume_gb or network_volume, not both")
        return self


class Limits(Section):
    """When a run is stopped although it has not finished."""

    hours: Positive = 1.0
    dollars: Positive | None = None


class StageSection(Section):
    """One command of an experiment that trains nothing with `lab`: an argument list, never a shell line."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    run: tuple[str, ...] = Field(min_length=1)
    hours: Positive | None = None


TRAINING_KEYS = (
    "loop",
    "attention",
    "loss",
    "observers",
    "data",
    "model",
    "batch",
    "optimizer",
    "train",
    "evaluate",
    "checkpoint",
)
COMPUTING_KEYS = (
    "seed", "loop", "attention", "loss", "data", "model", "batch", "optimizer", "train", "evaluate", "environment", "stages",
)  # fmt: skip


class Experiment(Section):
    """Everything that decides what a run computes, and in which environment."""

    name: str
    description: str = ""
    group: str | None = None
    seed: NotNegative = 42
    loop: Choice | None = None
    attention: Choice | None = None
    loss: Choice | None = None
    observers: dict[str, Options] = {}
    trackers: dict[str, Options | Literal[False]] = {}
    data: Data | None = None
    model: Model | None = None
    batch: Batch | None = None
    optimizer: Optimizer | None = None
    train: Train | None = None
    evaluate: Evaluate | None = None
    checkpoint: Checkpoint | None = None
    environment: Environment = Environment()
    limits: Limits = Limits()
    stages: tuple[StageSection, ...] = ()
    results: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _trains_or_runs_commands(self) -> Experiment:
        present = [key for key in TRAINING_KEYS if getattr(self, key) not in (None, {})]
        if self.stages and present:
            raise ValueError(f"an experiment with [[stages]] has no {present[0]}: it runs commands, it does not train")
        if not self.stages and (self.loop is None or self.train is None):
            missing = "loop" if self.loop is None else "train"
            raise ValueError(f"{missing} is missing: an experiment trains (loop and [train]) or runs [[stages]]")
        names = [stage.name for stage in self.stages]
        if len(set(names)) != len(names):
            raise ValueError("two stages have the same name")
        return self

    @model_validator(mode="after")
    def _batch_fits(self) -> Experiment:
        if self.data and self.batch and self.batch.tokens is not None and self.batch.tokens < self.data.context:
            raise ValueError(
                f"batch.tokens {self.batch.tokens} cannot hold one segment of data.context {self.data.context}"
            )
        if self.data and self.evaluate and self.evaluate.tokens < self.data.context:
            raise ValueError(
                f"evaluate.tokens {self.evaluate.tokens} cannot hold one segment of data.context {self.data.context}"
            )
        return self
