"""Whether a loop gives the same bits every time, with or without evaluation, and after it was saved and loaded."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from lab.conformance import require
from lab.conformance.context import Heard
from lab.contracts import Step
from lab.training import random as generators

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from lab.contracts import Loop, LoopContext


@dataclass(frozen=True)
class Seen:
    """What one step left, as plain values that compare bit for bit."""

    loss: str
    gradient_norm: str | None
    counts: tuple[int, ...]
    fed: str | None
    weights: str | None


def check_loop(
    build: Callable[[LoopContext], Loop], context: Callable[[], LoopContext], *, steps: int = 4, last: bool = False
) -> None:
    """Two runs of `steps` steps agree bit for bit, and so do a run that evaluates and one that is saved and loaded.

    `context` makes a fresh one each time; what a loop says through it is listened to. `last` says that the data ends
    after `steps`. Saving goes through `torch.save` and `torch.load(weights_only=True)`, as a checkpoint does.
    """
    before = generators.state()
    try:
        straight = _pulled(build, context, steps, last=last)
        require(straight == _pulled(build, context, steps), "two runs of one experiment differ")
        late = _pulled(build, context, steps, late=True)
        require(straight == late, "a step's tensors change once the next step is under way: give it tensors of its own")
        evaluated = _pulled(build, context, steps, evaluate=True)
        require(straight == evaluated, "evaluating between two steps changes the steps that follow")
        _check_fingerprints(straight)
        if steps > 1:
            _check_resumption(build, context, straight)
    finally:
        generators.restore(before)


def _pulled(
    build: Callable[[LoopContext], Loop],
    context: Callable[[], LoopContext],
    steps: int,
    *,
    late: bool = False,
    evaluate: bool = False,
    last: bool = False,
) -> list[Seen]:
    heard = Heard()
    loop = _built(build, context, heard)
    if evaluate:
        _check_evaluation(loop)
    seen: list[Seen] = []
    waiting: Step | None = None
    weights: str | None = None
    iterator = loop.steps()
    for step in itertools.islice(iterator, steps):
        require(not heard.open_phases, f"the phase {', '.join(heard.open_phases)} is open at a yield")
        _check_step(step)
        if waiting is not None:
            seen.append(_seen(waiting, weights))
        waiting, weights = step, loop.weights()
        if not late:
            seen.append(_seen(step, weights))
            waiting = None
        if evaluate:
            _check_evaluation(loop)
    if waiting is not None:
        seen.append(_seen(waiting, weights))
    require(len(seen) == steps, f"the loop gives {len(seen)} steps where {steps} were wanted")
    require(not last or next(iterator, None) is None, f"the loop goes on after {steps} steps")
    _close(iterator)
    require(heard.phases, "the loop names no phase: observers would see nothing inside a step")
    return seen


def _built(build: Callable[[LoopContext], Loop], context: Callable[[], LoopContext], heard: Heard) -> Loop:
    """As the worker does it: seeded, then built, with a context that listens."""
    given = context()
    generators.seed_everything(given.experiment.seed)
    listening = replace(given, phase=heard.phase, add_artifact=heard.add_artifact, note=heard.note)
    return build(listening)


def _close(iterator: Iterator[Step]) -> None:
    close = getattr(iterator, "close", None)
    require(callable(close), "steps() gives an iterator that cannot be closed; write it as a generator")
    assert close is not None
    close()


def _check_step(step: Step) -> None:
    require(isinstance(step, Step), f"steps() yields {type(step).__name__}, not lab.contracts.Step")
    for name in ("loss", "gradient_norm"):
        value = getattr(step, name)
        if value is None and name == "gradient_norm":
            continue
        scalar = isinstance(value, torch.Tensor) and value.shape == () and value.dtype == torch.float32
        require(scalar, f"Step.{name} must be an FP32 scalar tensor, not {value!r}")
        require(not value.requires_grad, f"Step.{name} holds the graph of its computation: detach it")
    require(step.targets > 0, f"a step counted {step.targets} targets")
    require(bool(torch.isfinite(step.loss)), f"the loss is {float(step.loss)}")


def _seen(step: Step, weights: str | None) -> Seen:
    counts = (step.targets, step.tokens, step.segments, step.packs, step.micro_batches)
    return Seen(_bits(step.loss), _bits(step.gradient_norm), counts, step.fed, weights)  # type: ignore[arg-type]


def _bits(value: Tensor | None) -> str | None:
    return None if value is None else float(value).hex()


def _check_evaluation(loop: Loop) -> None:
    weights = loop.weights()
    first, second = loop.evaluate(), loop.evaluate()
    require(first == second, f"evaluating twice in a row differs: {first} and {second}")
    require(loop.weights() == weights, "evaluating changes the weights")
    if first is not None:
        require(first.targets > 0, "an evaluation counted no target")


def _check_fingerprints(seen: list[Seen]) -> None:
    fed = [one.fed for one in seen if one.fed is not None]
    require(len(fed) in (0, len(seen)), "some steps have a fingerprint of the tokens fed and some have none")
    require(len(set(fed)) == len(fed), "the fingerprint of the tokens fed does not roll: it repeats")
    hexadecimal = all(len(one) == 64 and set(one) <= set("0123456789abcdef") for one in fed)
    require(hexadecimal, "the fingerprint of the tokens fed is no SHA-256 in hexadecimal")


def _check_resumption(
    build: Callable[[LoopContext], Loop], context: Callable[[], LoopContext], straight: list[Seen]
) -> None:
    """Stop after some steps, save, load into a new loop: the rest must be the same bits."""
    cut = max(1, len(straight) // 2)
    loop = _built(build, context, Heard())
    iterator = loop.steps()
    for _ in range(cut):
        next(iterator)
    saved = io.BytesIO()
    torch.save({"loop": loop.state_dict(), "random": generators.state()}, saved)
    _close(iterator)
    saved.seek(0)
    try:
        state: dict[str, Any] = torch.load(saved, weights_only=True)
    except Exception as error:
        require(False, f"state_dict() cannot be loaded with weights_only=True: {str(error).splitlines()[0]}")
        raise
    resumed = _built(build, context, Heard())
    resumed.load_state_dict(state["loop"])
    generators.restore(state["random"])
    rest = [_seen(step, resumed.weights()) for step in itertools.islice(resumed.steps(), len(straight) - cut)]
    differs = next((index for index, (a, b) in enumerate(zip(straight[cut:], rest, strict=False)) if a != b), len(rest))
    require(rest == straight[cut:], f"after loading, step {cut + differs + 1} differs from the run that went through")
