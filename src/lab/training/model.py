"""The baseline's decoder: GPT-style, pre-norm, bias-free linears, learned positions, head tied to the embedding.

Shapes: T tokens, H heads, D head width, V vocabulary, d model width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn import functional

from lab.training.precision import linear

if TYPE_CHECKING:
    from torch import Tensor

    from lab.contracts import Attention, Plan
    from lab.experiment.sections import Model, Train

INITIAL_DEVIATION = 0.02


class Linear(nn.Module):
    """A product without bias, at the precision that the experiment asks for."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(outputs, inputs))

    def forward(self, x: Tensor) -> Tensor:
        """(T, inputs) -> (T, outputs)."""
        return linear(x, self.weight)


class Block(nn.Module):
    """Attention, then a perceptron, each behind a norm and added to the residual stream."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.qkv = Linear(width, 3 * width)
        self.attention_out = Linear(width, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_in = Linear(width, 4 * width)
        self.mlp_out = Linear(4 * width, width)

    def forward(self, residual: Tensor, attention: Attention, plan: Plan) -> Tensor:
        """(T, d) -> (T, d)."""
        tokens, width = residual.shape
        qkv = self.qkv(self.attention_norm(residual)).view(tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.unbind(1)  # (T, H, D) each
        attended = attention(q, k, v, plan).reshape(tokens, width)
        residual = residual + self.attention_out(attended)
        perceptron: Tensor = self.mlp_out(functional.gelu(self.mlp_in(self.mlp_norm(residual))))
        return residual + perceptron


class Decoder(nn.Module):
    """Hidden states from tokens; the head is the token embedding's own weight, so the loss decides how to apply it."""

    def __init__(self, layers: int, width: int, heads: int, vocabulary: int, context: int) -> None:
        super().__init__()
        self.residual: torch.dtype | None = None
        """What the stream between the blocks is kept in; None leaves it as the embeddings are."""
        self._compiled_rows: int | None = None
        # Weights are drawn by `initialise`, so none are drawn here.
        self.token_embedding = nn.Embedding.from_pretrained(torch.empty(vocabulary, width), freeze=False)
        self.position_embedding = nn.Embedding.from_pretrained(torch.empty(context, width), freeze=False)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)

    @property
    def head(self) -> Tensor:
        """(V, d): tied to the token embedding."""
        weight: Tensor = self.token_embedding.weight
        return weight

    def hidden(self, tokens: Tensor, positions: Tensor, attention: Attention, plan: Plan) -> Tensor:
        """(T,) tokens and their positions within their segment -> (T, d), ready for the head."""
        residual: Tensor = self.token_embedding(tokens) + self.position_embedding(positions)
        if self.residual is not None:
            residual = residual.to(self.residual)
        compiled = self._compiled_rows in (None, len(tokens))
        for block in self.blocks:
            residual = (block if compiled else block.forward)(residual, attention, plan)
        normed: Tensor = self.final_norm(residual)
        return normed

    def compile_blocks(self, rows: int | None = None, backend: str = "inductor") -> None:
        """Compile each block on its own: equal blocks share their graphs, and parameter names stay as they are.

        With `rows` only batches of that many rows run compiled, in one graph for good. An evaluation or an epoch's last
        batch runs as written: compiling a graph for it takes longer than it does.
        """
        self._compiled_rows = rows
        for block in self.blocks:
            block.compile(backend=backend, dynamic=None if rows is None else False)


def build(
    model: Model,
    train: Train,
    *,
    vocabulary: int,
    context: int,
    seed: int,
    device: torch.device,
    rows: int | None = None,
) -> Decoder:
    """The decoder of an experiment with its initial weights: the seed gives the same ones on every device.

    `rows` is how many a static batch has; what is compiled is compiled for them.
    """
    decoder = Decoder(model.layers, model.width, model.heads, vocabulary, context)
    initialise(decoder, seed)
    decoder.to(device)
    decoder.residual = torch.bfloat16 if train.residual == "bf16" else None
    if train.compile:
        decoder.compile_blocks(rows)
    return decoder


def initialise(model: Decoder, seed: int) -> None:
    """Draw every embedding and linear from normal(0, 0.02) on the CPU; norms start as the identity."""
    generator = torch.Generator("cpu").manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0.0, INITIAL_DEVIATION, generator=generator)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
