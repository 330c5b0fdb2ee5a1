"""Fenland: boxes with a GPU, by the minute."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def backends() -> list[Part]:
    """The `fenland` backend."""
    return [
        Part(
            "fenland",
            target="lab_fenland.backend:FenlandBackend",
            summary="A box of the Fenland cloud, rented by the minute.",
            options="lab_fenland.options:FenlandOptions",
        )
    ]
