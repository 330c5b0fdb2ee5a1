"""FineWeb, or any data set of Parquet files on the hub, read at one commit without storing it."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def sources() -> list[Part]:
    """The `fineweb` source."""
    return [
        Part(
            name="fineweb",
            target="lab_fineweb.source:FineWeb",
            summary="Web text from the hub at one commit, read shard by shard; nothing is stored but tokens.",
            extra="hub",
            options="lab_fineweb.options:FineWebOptions",
        )
    ]
