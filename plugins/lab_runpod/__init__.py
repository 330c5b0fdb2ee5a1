"""RunPod: the same job on a rented GPU, by the cloud's REST API v2."""

from __future__ import annotations

from lab import Part, hookimpl


@hookimpl
def backends() -> list[Part]:
    """The `runpod` backend."""
    return [
        Part(
            "runpod",
            target="lab_runpod.backend:RunPodBackend",
            summary="A rented GPU on RunPod: created, watched, collected, deleted and proved deleted.",
            options="lab_runpod.options:RunPodOptions",
        )
    ]
