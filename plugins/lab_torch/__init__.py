"""Attention and losses in plain PyTorch: the references, and faster forms that equal them on any device."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def attentions() -> list[Part]:
    """SDPA over each segment."""
    return [
        Part(
            "sdpa",
            target="lab_torch.sdpa:SegmentAttention",
            summary="PyTorch's scaled_dot_product_attention over each segment, or over all of one length at once.",
            options="lab_torch.options:SdpaOptions",
        )
    ]


@hookimpl
def losses() -> list[Part]:
    """Cross-entropy at once, or in chunks."""
    return [
        Part(
            "cross-entropy",
            target="lab_torch.cross_entropy:CrossEntropy",
            summary="The plain reference: all logits at once, then PyTorch's cross_entropy.",
        ),
        Part(
            "chunked",
            target="lab_torch.chunked:ChunkedCrossEntropy",
            summary="Cross-entropy over a few rows at a time: the whole logits never exist.",
            options="lab_torch.options:ChunkedOptions",
        ),
    ]
