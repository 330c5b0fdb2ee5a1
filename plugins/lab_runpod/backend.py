"""The RunPod backend: everything that `lab.rental` does, with RunPod as its cloud."""

from __future__ import annotations

from lab.rental.backend import RentedBackend
from lab_runpod.options import RunPodOptions
from lab_runpod.provider import RunPodProvider


class RunPodBackend(RentedBackend):
    """Built as `cls(options)`, as every backend is."""

    def __init__(self, options: RunPodOptions | None = None) -> None:
        chosen = options or RunPodOptions()
        super().__init__(RunPodProvider(chosen), chosen)
