"""Text that comes with Python packages: real prose on any machine, without a network."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def sources() -> list[Part]:
    """Addresses and manuals."""
    return [
        Part(
            "embedded",
            target="lab_embedded.source:EmbeddedText",
            summary="American presidents' annual addresses, then Python's manual pages: 328 documents, 2.5 M tokens.",
            extra="embedded",
        )
    ]
