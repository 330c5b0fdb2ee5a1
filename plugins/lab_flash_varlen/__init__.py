"""Variable-length FlashAttention: torch's own kernel, FA3, FA4 or the flash-attn package, behind one call."""

from __future__ import annotations

from lab.hookspecs import Part, hookimpl


@hookimpl
def attentions() -> list[Part]:
    """The `flash-varlen` attention."""
    return [
        Part(
            name="flash-varlen",
            target="lab_flash_varlen.attention:FlashVarlen",
            summary="FlashAttention over packed segments in BF16; one graph for every document mix.",
            extra="train",
            options="lab_flash_varlen.options:FlashVarlenOptions",
        )
    ]
