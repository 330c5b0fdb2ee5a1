"""The baseline's training loop: a decoder from scratch on packed documents."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def loops() -> list[Part]:
    """The `pretrain` loop."""
    return [
        Part(
            "pretrain",
            target="lab_pretrain.loop:PretrainLoop",
            summary="Trains a decoder from scratch on packed documents: the baseline's whole order of computation.",
            extra="train",
            options="lab_pretrain.options:PretrainOptions",
        )
    ]
