"""This machine: a job's stages as child processes that outlive the terminal."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def backends() -> list[Part]:
    """The `local` backend."""
    return [
        Part(
            name="local",
            target="lab_local.backend:LocalBackend",
            summary="This machine: stages as child processes that outlive the terminal.",
        )
    ]
