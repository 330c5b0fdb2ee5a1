"""environment.json: the versions, hardware, precision and kernels that this attempt really used."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from lab.runs import environment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lab.training.flops import Peak
    from lab.worker.assemble import Parts

DRIVER = Path("/proc/driver/nvidia/version")


def record(
    parts: Parts,
    notes: Mapping[str, object],
    fingerprints: Mapping[str, object],
    peak: Peak,
    observers_modules: Collection[str] = (),
) -> dict[str, object]:
    """What can be told now; libraries that a part imports later are in it when it is written again at the end."""
    machine = environment.machine()
    device = device_record(parts.device)
    gpu = str(device["name"]) if parts.device.type == "cuda" else None
    image = machine["image"]
    differences = environment.differences(
        parts.experiment.environment, None, gpu, image if isinstance(image, str) else None
    )
    return {
        "schema": 1,
        "packages": environment.imported_packages(),
        "packages_of_observers": sorted(environment.imported_packages(observers_modules)),
        **machine,
        "threads": torch.get_num_threads(),
        "device": device,
        "driver": driver(),
        "cuda": torch.version.cuda,
        "precision": parts.train.precision,
        "kernels": parts.kernels,
        "objective": parts.objective,
        "peak": asdict(peak),
        "fingerprints": dict(fingerprints),
        "notes": dict(notes),
        "differences": [asdict(difference) for difference in differences],
    }


def device_record(device: torch.device) -> dict[str, object]:
    """The device as its driver names it; a CPU has neither UUID nor memory of its own."""
    if device.type != "cuda":
        return {"type": device.type, "name": environment.cpu_name(), "uuid": None, "memory_bytes": None}
    found: Any = torch.cuda.get_device_properties(device)
    return {
        "type": "cuda",
        "name": found.name,
        "uuid": str(getattr(found, "uuid", "")) or None,
        "memory_bytes": found.total_memory,
    }


def driver() -> str | None:
    """The version of the NVIDIA driver, or None where none is loaded."""
    try:
        text = DRIVER.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(r"Kernel Module(?: for \S+)?\s+(\d[\d.]+)", text)
    return found[1] if found else None
