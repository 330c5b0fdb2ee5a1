"""Loop: training as a generator of steps; the worker pulls, so each loop shows its whole order of computation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch
    from pydantic import BaseModel
    from torch import Tensor

    from lab.contracts.attention import Attention
    from lab.contracts.loss import Loss
    from lab.experiment import Experiment

ARTIFACT_KINDS = ("figure", "json", "table", "file", "trace", "snapshot")
"""What reports know how to treat; a trace and a snapshot are named with the viewer that opens them."""


@dataclass(frozen=True)
class LoopContext:
    """What the worker hands a loop: the experiment, its parts, its device, its data, and the ways to say something."""

    experiment: Experiment
    options: BaseModel | None
    device: torch.device
    attention: Attention | None
    loss: Loss | None
    tokens: Path | None
    """The folder of the prepared token cache, or None for an experiment without [data]."""
    folder: Path
    """The run directory: a part writes no file there but those that it adds as artifacts."""
    phase: Callable[[str], AbstractContextManager[None]]
    """`with context.phase("forward"):` tells observers and names a range in the trace; none is open at a `yield`."""
    add_artifact: Callable[[Path, str, str], None]
    """`add_artifact(path, kind, title)`: a file for the report, shown as its kind says.

    "figure" is a picture, "json" a record, "table" a CSV file or a record, and "file" is kept and not shown. The kinds
    are `ARTIFACT_KINDS`; a file of any other kind is kept as "file", and the log says so.
    """
    note: Callable[[str, object], None]
    """`note(key, value)`: a fact for environment.json that only the loop knows, such as the kernels in use."""


@dataclass(frozen=True)
class Step:
    """One optimizer update. The two tensors stay on the device until the worker reads them a step later."""

    loss: Tensor
    """FP32 scalar: mean cross-entropy (nats) a target, the whole step's sum divided once by its `targets`."""
    targets: int
    """Targets that counted in the loss, over all micro-batches."""
    gradient_norm: Tensor | None = None
    """FP32 scalar, before clipping."""
    tokens: int = 0
    """Input tokens fed, without rows that only fill a static shape."""
    segments: int = 0
    packs: int = 0
    micro_batches: int = 1
    learning_rate: float | None = None
    flops: int | None = None
    """Model FLOPs by the formula of the note "flops" (docs/plugins.md), or None when the loop knows none."""
    fed: str | None = None
    """Rolling SHA-256 (hex) over every token, target and segment start fed up to and including this step."""
    values: Mapping[str, Tensor | float] = field(default_factory=dict)
    """More numbers for this step's line, by name."""


@dataclass(frozen=True)
class Evaluation:
    """One pass over the fixed validation batches."""

    loss: float
    """Mean cross-entropy (nats) a target: the summed loss over `targets`."""
    targets: int
    tokens: int
    batches: int
    inputs: str | None = None
    """SHA-256 (hex) over the tokens, targets and segment starts evaluated."""
    bytes: int | None = None
    """UTF-8 bytes that the targets spell, for bits per byte across tokenizers."""


class Loop(Protocol):
    """Built as `cls(context)`; the worker calls nothing between two pulls but evaluate and state_dict."""

    context: LoopContext

    def steps(self) -> Iterator[Step]:
        """Yield one `Step` per optimizer update, from the loaded position on, without end or until data ends.

        The worker closes the generator after the last step, also when the run fails. What the loop leaves for the
        report is written then, in a `finally` around the steps: outside the clock, and once.
        """
        ...

    def evaluate(self) -> Evaluation | None:
        """Evaluate the current weights on the fixed inputs; None when the experiment evaluates nothing."""
        ...

    def state_dict(self) -> dict[str, object]:
        """All but RNG that `load_state_dict` needs to go on at the next step; loads with `weights_only=True`."""
        ...

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Restore what `state_dict` gave; the next step pulled is the one after it."""
        ...

    def weights(self) -> str | None:
        """SHA-256 (hex) of the canonical state dict, or None when the loop has no weights of its own."""
        ...
