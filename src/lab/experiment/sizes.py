"""What no machine can hold, told from the experiment's numbers alone: a run would only die, deaf, while it allocates.

The limits are generous on purpose: what merely might not fit is for the machine to say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lab.experiment.sections import Batch, Data, Evaluate, Model

MEMORY_BYTES = 16 * 10**12
"""More than the largest single machines have; an H100 has 80 * 10**9."""
PARAMETER_BYTES = 16
"""FP32: the weight, its gradient and AdamW's two moments."""
ACTIVATION_BYTES = 2
"""The least that a block keeps for its backward pass: its input, in BF16."""
MOST_TOKENS = 10**9
"""In one optimizer step, or in one evaluation."""


def impossible(data: Data | None, model: Model | None, batch: Batch | None, evaluate: Evaluate | None) -> Iterator[str]:
    """Each size that is out of the question, beginning with its key."""
    context = data.context if data else 1
    if model:
        yield from _parameters(model, context)
    if batch:
        yield from _step(batch, context, model)
    if evaluate and (tokens := evaluate.batches * evaluate.tokens) > MOST_TOKENS:
        made = f"{_key('evaluate.batches', evaluate.batches)} of {_key('evaluate.tokens', evaluate.tokens)}"
        yield f"{made} make {_count(tokens)} tokens an evaluation; at most {_count(MOST_TOKENS)}"


def parameters(model: Model, context: int) -> int:
    """How many the decoder has without its token embedding, whose vocabulary only the tokenizer knows."""
    width = model.width
    return model.layers * (12 * width * width + 4 * width) + context * width + 2 * width


def _parameters(model: Model, context: int) -> Iterator[str]:
    number = parameters(model, context)
    if number * PARAMETER_BYTES > MEMORY_BYTES:
        shape = f"{_key('model.layers', model.layers)}, {_key('model.width', model.width)}"
        made = f"{shape} and {_key('data.context', context)} make {_count(number)} parameters"
        yield f"{made}; at most {_count(MEMORY_BYTES // PARAMETER_BYTES)}"


def _step(batch: Batch, context: int, model: Model | None) -> Iterator[str]:
    if batch.packs is None:
        tokens = batch.tokens or 0
        size = _key("batch.tokens", tokens)
    else:
        tokens = batch.packs * context
        size = f"{_key('batch.packs', batch.packs)} of {_key('data.context', context)}"
    if (step := tokens * batch.micro_batches) > MOST_TOKENS:
        made = f"{size} with {_key('batch.micro_batches', batch.micro_batches)}"
        yield f"{made} make {_count(step)} tokens a step; at most {_count(MOST_TOKENS)}"
    elif model and (kept := tokens * model.layers * model.width * ACTIVATION_BYTES) > MEMORY_BYTES:
        held = f"{size} would keep at least {_count(kept)} bytes for the backward pass of this model"
        yield f"{held}; at most {_count(MEMORY_BYTES)}"


def _key(key: str, number: int) -> str:
    return f"{key} {_count(number)}"


def _count(number: int) -> str:
    return f"{number:_}" if number < 10**15 else f"{number:.1e}"
