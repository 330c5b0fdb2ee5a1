"""What the model thinks comes next, as plain numbers for the record and the picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torch import Tensor


def most_likely_next(model: Any, tokenizer: Any, prompt: str, device: torch.device) -> dict[str, Any]:
    """The greedy continuation of the prompt by one token."""
    ids = torch.tensor([tokenizer(prompt, add_special_tokens=False)["input_ids"]], device=device)
    with torch.no_grad():
        likely = int(model(input_ids=ids).logits[0, -1].argmax())
    return {"prompt": prompt, "id": likely, "text": tokenizer.decode([likely])}


def each_position(ids: list[int], logits: Tensor, losses: Tensor, tokenizer: Any, most: int) -> list[dict[str, Any]]:
    """For each position but the last: the `most` likeliest tokens, the share of all others, and what the target got.

    `ids` are T token ids, `logits` (T, V), `losses` (T - 1,): position t is scored by the token at t + 1.
    """
    rows = []
    for position, target in enumerate(ids[1:]):
        probabilities = logits[position].softmax(-1)  # (V,)
        top = probabilities.topk(min(most, probabilities.numel()))
        rows.append(
            {
                "after": tokenizer.decode(ids[: position + 1]),
                "top": [
                    {"id": int(token), "text": tokenizer.decode([int(token)]), "probability": float(share)}
                    for token, share in zip(top.indices, top.values, strict=True)
                ],
                "rest": max(0.0, float(1 - top.values.sum())),
                "target": {
                    "id": target,
                    "text": tokenizer.decode([target]),
                    "probability": float(probabilities[target]),
                },
                "loss": float(losses[position]),
            }
        )
    return rows
