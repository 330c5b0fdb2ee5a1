"""FlexAttention under a document mask that is built from the segment starts."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def attentions() -> list[Part]:
    """The `flex` attention."""
    return [
        Part(
            name="flex",
            target="lab_flex.attention:FlexDocuments",
            summary="FlexAttention with a block mask of the segments; trains on a GPU.",
            extra="train",
        )
    ]
