"""AdamW as the baseline has it: matrices decay, vectors do not, and only finite gradients ever reach a weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch.optim import AdamW

from lab.errors import LabError
from lab.training import checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor, nn

    from lab.experiment.sections import Optimizer


@dataclass(frozen=True)
class Group:
    """Parameters that decay alike, by name."""

    parameters: tuple[str, ...]
    weight_decay: float


def groups(model: nn.Module, weight_decay: float) -> tuple[Group, Group]:
    """Every parameter in exactly one group: norms and biases are one-dimensional and do not decay."""
    shapes = {name: parameter.ndim for name, parameter in model.named_parameters()}
    return (
        Group(tuple(name for name, dimensions in shapes.items() if dimensions > 1), weight_decay),
        Group(tuple(name for name, dimensions in shapes.items() if dimensions <= 1), 0.0),
    )


def adamw(model: nn.Module, section: Optimizer) -> AdamW:
    """The optimizer of an experiment; its moments are FP32 because the parameters are."""
    parameters = dict(model.named_parameters())
    return AdamW(
        [
            {"params": [parameters[name] for name in group.parameters], "weight_decay": group.weight_decay}
            for group in groups(model, section.weight_decay)
        ],
        lr=section.learning_rate,
        betas=section.betas,
        fused=section.fused,
    )


def load(optimizer: AdamW, state: Mapping[str, Any]) -> None:
    """Restore moments and step counts.

    Raises `LabError` when a setting of the experiment differs: torch would go on with the old one and say nothing.
    """
    for number, (own, saved) in enumerate(zip(optimizer.param_groups, state["param_groups"], strict=True)):
        for key in ("lr", "betas", "weight_decay", "eps", "amsgrad", "maximize"):
            if own[key] != saved[key]:
                raise LabError(
                    f"The checkpoint's parameter group {number} has {key} {saved[key]}, the experiment {own[key]}.",
                    "Resume with the experiment that saved it, or start a run of the changed one.",
                )
    optimizer.load_state_dict(dict(state))


def scale_gradients(parameters: list[nn.Parameter], factor: float) -> None:
    """Multiply all gradients, which are those of a sum, so that they become those of a mean."""
    for parameter in parameters:
        if parameter.grad is not None:
            parameter.grad.mul_(factor)


def step_if_finite(optimizer: AdamW, step: int, loss: Tensor, norm: Tensor) -> None:
    """Update the weights, unless the loss or the gradients' norm is not finite: then no weight and no moment changes.

    A fused kernel on a GPU is told there, so that nothing waits for it, and the worker stops the run when it reads the
    step. Elsewhere the two numbers are read here, once a step. Raises `LabError` naming the step.
    """
    if loss.is_cuda and optimizer.defaults["fused"]:
        step_unless_told(optimizer, loss, norm)
    else:
        check_finite(step, float(loss), float(norm))
        optimizer.step()


def step_unless_told(optimizer: AdamW, loss: Tensor, norm: Tensor) -> None:
    """Let the fused kernel itself see whether both numbers are finite, and withhold the update when one is not."""
    optimizer.found_inf = 1.0 - (loss.isfinite() & norm.isfinite()).float()  # type: ignore[attr-defined]
    optimizer.step()


def check_finite(step: int, loss: float, norm: float | None) -> None:
    """Raise `LabError` naming the step when its loss or its gradients' norm is not finite."""
    for name, number in (("loss", loss), ("gradients' norm", norm)):
        if number is not None and not math.isfinite(number):
            raise LabError(
                f"step {step}: the {name} is {number}: the run ends here, and no checkpoint holds this step.",
                checkpoint.AS_IT_WAS,
            )
