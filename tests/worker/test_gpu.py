"""What the driver says of the GPU, asked through a driver that these tests play."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from lab.worker import gpu

UUID = "1f2e3d4c-0000-0000-0000-000000000001"


class NVMLError(Exception):
    pass


class Driver(ModuleType):
    """As `pynvml` is, for one GPU; what is in `broken` raises."""

    NVMLError = NVMLError

    def __init__(self, name: str = f"GPU-{UUID}", broken: tuple[str, ...] = ()) -> None:
        super().__init__("pynvml")
        self.name, self.broken = name, broken
        self.calls: list[str] = []

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's own names
        self._called("init")

    def nvmlDeviceGetHandleByUUID(self, name: str) -> str:  # noqa: N802
        if name != self.name:
            raise NVMLError(f"Not Found: {name}")
        return "handle"

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> SimpleNamespace:  # noqa: N802
        self._called("utilisation")
        return SimpleNamespace(gpu=97, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> SimpleNamespace:  # noqa: N802
        self._called("memory")
        return SimpleNamespace(total=80, used=60)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> int:  # noqa: N802
        self._called("power")
        return 650_500

    def _called(self, what: str) -> None:
        self.calls.append(what)
        if what in self.broken:
            raise NVMLError(f"{what}: Not Supported")


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Torch as it is where a GPU computes."""
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=UUID))
    return monkeypatch


@pytest.mark.parametrize("name", [f"GPU-{UUID}", f"MIG-{UUID}"])
def test_the_gpu_that_torch_computes_on_is_the_one_that_is_asked(name: str, on_a_gpu: pytest.MonkeyPatch) -> None:
    on_a_gpu.setitem(sys.modules, "pynvml", Driver(name))

    found = gpu.here()

    assert found is not None
    assert found.read() == {"gpu_percent": 97, "gpu_memory_bytes": 60, "gpu_watts": 650.5}


def test_without_a_gpu_no_driver_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver()
    monkeypatch.setitem(sys.modules, "pynvml", driver)

    assert gpu.here() is None
    assert driver.calls == []


def test_without_the_library_nothing_is_recorded_and_the_log_says_so(
    on_a_gpu: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_a_gpu.setitem(sys.modules, "pynvml", None)
    caplog.set_level("INFO")

    assert gpu.here() is None
    assert "what the GPU does is not recorded: import of pynvml halted" in caplog.text


@pytest.mark.parametrize("driver", [Driver(broken=("init",)), Driver("GPU-another")])
def test_a_driver_that_cannot_be_asked_harms_no_run(driver: Driver, on_a_gpu: pytest.MonkeyPatch) -> None:
    on_a_gpu.setitem(sys.modules, "pynvml", driver)

    assert gpu.here() is None


def test_what_the_driver_does_not_tell_is_asked_once_and_the_rest_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    driver = Driver(broken=("utilisation",))
    caplog.set_level("INFO")
    one = gpu.Gpu(driver, "handle")

    found = [one.read(), one.read()]

    assert found == [{"gpu_memory_bytes": 60, "gpu_watts": 650.5}] * 2
    assert driver.calls == ["utilisation", "memory", "power", "memory", "power"]
    assert caplog.text.count("gpu_percent is not recorded from here on: utilisation: Not Supported") == 1
