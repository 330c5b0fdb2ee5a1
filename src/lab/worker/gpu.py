"""What the driver's own library (NVML) says of the GPU: how busy it is, how full, and how much power it takes."""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)

PREFIXES = ("GPU-", "MIG-")


class Gpu:
    """One GPU. What the driver does not tell is not asked for again."""

    def __init__(self, nvml: Any, handle: object) -> None:
        self._asked: dict[str, Callable[[], float]] = {
            "gpu_percent": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "gpu_memory_bytes": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "gpu_watts": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        }

    def read(self) -> dict[str, object]:
        """The share of the last moment in which it computed, its memory in use by anyone, and its power."""
        found: dict[str, object] = {}
        for name, ask in list(self._asked.items()):
            try:
                found[name] = ask()
            except Exception as error:  # a driver may fail in any way, and none may end a run
                del self._asked[name]
                logger.info("%s is not recorded from here on: %s", name, error)
        return found


def here() -> Gpu | None:
    """The GPU that this process computes on; None without one, or where nobody can be asked about it."""
    if not torch.cuda.is_initialized():
        return None
    try:
        nvml = importlib.import_module("pynvml")
        nvml.nvmlInit()
        uuid = str(torch.cuda.get_device_properties(torch.cuda.current_device()).uuid)
        return Gpu(nvml, _handle(nvml, uuid))
    except Exception as error:  # as above
        logger.info("what the GPU does is not recorded: %s", error)
        return None


def _handle(nvml: Any, uuid: str) -> object:
    """NVML's handle of the device that torch calls by this UUID, which it gives with or without a prefix."""
    names = [uuid] if uuid.startswith(PREFIXES) else [f"{prefix}{uuid}" for prefix in PREFIXES]
    for name in names[:-1]:
        try:
            return nvml.nvmlDeviceGetHandleByUUID(name)
        except nvml.NVMLError:
            continue
    return nvml.nvmlDeviceGetHandleByUUID(names[-1])
