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
    """Cross-entropy at once, in chunks, over a padded vocabulary, or PyTorch's own."""
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
        Part(
            "padded",
            target="lab_torch.padded:PaddedLoss",
            summary="Exact cross-entropy over a vocabulary padded for aligned products; no parameter is added.",
            options="lab_torch.options:PaddedOptions",
        ),
        Part(
            "torch-linear",
            target="lab_torch.torch_linear:TorchLinearLoss",
            summary="PyTorch's own chunked linear cross-entropy (from 2.13 on), with the head in FP32.",
            extra="torch-linear",
            options="lab_torch.options:TorchLinearOptions",
        ),
    ]
